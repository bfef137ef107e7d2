"""SBCR's calibration module."""
