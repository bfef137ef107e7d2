"""Numbers that the compiled loops and their twins in torch or numpy agree on. Loads neither numba nor torch."""

LOG_SCALE_LIMIT = 15.0
"""The rescaling factor exp(w) stays within exp(±15), so that no input makes it infinite or zero."""

HASH_STARTS = (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03)
HASH_FACTORS = (0xBF58476D1CE4E5B9, 0xC2B2AE3D27D4EB4F)
HASH_LAST_FACTOR = 0x94D049BB133111EB
"""Constants of the two hashes of a text; saved indexes and hashed fields rest on them, so they never change."""

LONGEST_VALUE = 4_096
"""Bytes of a category. Longer texts count as unseen in fits, tables and requests, so none costs more than this."""

TEXT_ROOM = 8
"""Zero bytes behind the texts of a request: they are read eight bytes at a time."""
