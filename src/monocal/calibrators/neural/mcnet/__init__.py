"""MCNet, a contemporary of UMC: calibrator and torch map; a fitted map is applied and exported as UMC's."""
