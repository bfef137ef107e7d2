"""Compiled loops over arrays: the exact monotone integral, training on field ids, and prediction without torch.

numba keeps compiled functions on disk and recompiles one when its own file changes, not when a file it imports from
does: after editing `integral_walk.py`, `folded_rows.py`, `lanes.py` or `jit.py` delete the `*.nbi` files (or
NUMBA_CACHE_DIR).
"""
