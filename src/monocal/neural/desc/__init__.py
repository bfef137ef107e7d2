"""DESC: deep ensemble shape calibration."""
