"""Compiled loops over arrays: prediction of UMC without torch, sums of the wide regression, first layers in training.

numba keeps compiled functions on disk and recompiles one when its own file changes, not when a file it imports from
does: after editing `jit.py`, `dense.py` or `rows.py` delete the `*.nbi` files (or NUMBA_CACHE_DIR).
"""
