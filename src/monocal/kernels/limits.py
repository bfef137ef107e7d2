"""Numbers that the compiled loops and their torch twins agree on. Loads neither numba nor torch."""

CAP = 512
"""Largest width of the exact integrand's hidden layers."""

LOG_SCALE_LIMIT = 15.0
"""The rescaling factor exp(w) stays within exp(±15), so that no input makes it infinite or zero."""
