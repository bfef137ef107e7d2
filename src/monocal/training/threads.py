"""The number of threads as something borrowed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def torch_threads(n_threads: int | None) -> Iterator[None]:
    """Sets torch's number of threads for a while; None leaves it alone.

    Example:
        >>> import torch
        >>> before = torch.get_num_threads()
        >>> with torch_threads(1):
        ...     torch.get_num_threads()
        1
        >>> torch.get_num_threads() == before
        True
    """
    before = torch.get_num_threads()
    try:
        if n_threads is not None:
            torch.set_num_threads(n_threads)
        yield
    finally:
        torch.set_num_threads(before)
