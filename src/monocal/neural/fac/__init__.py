"""FAC: field-aware calibration."""
