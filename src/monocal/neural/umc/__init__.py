"""UMC: unconstrained monotone calibration."""
