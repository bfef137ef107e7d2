"""AdaCalib: one broken line per value of one field."""
