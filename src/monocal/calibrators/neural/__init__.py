"""Calibrators trained by gradient descent. The export list is the registry; torch is imported only when fitting."""

__all__: list[str] = []
