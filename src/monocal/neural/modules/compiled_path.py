"""Whether a batch can take the compiled loops instead of torch's own operators."""

from __future__ import annotations

import torch
from torch import Tensor

from monocal.compiled.jit import numba_is_installed


def runs_compiled(tensor: Tensor) -> bool:
    """Says whether the compiled loops can take this tensor: CPU memory, numba installed, not being traced."""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling() and numba_is_installed()
