"""Models on tables with raw values: fitting, the artefact folder, fusion."""

import warnings
from typing import Any

from monocal.models.artefact import load_model, read_manifest, save_model
from monocal.models.fitting import fit
from monocal.models.fusion import Fusion
from monocal.models.model import Model, TaskModel

__all__ = ["Fusion", "Model", "TaskModel", "fit", "load_model", "read_manifest", "save_model"]


def __getattr__(name: str) -> Any:
    """Finds the one public function of version 0.1 that moved out of this package."""
    if name != "encode_table":
        raise AttributeError(f"module 'monocal.models' has no attribute {name!r}")
    from monocal.logs.row_log import encode_table

    warnings.warn(
        "monocal.models.encode_table is now monocal.logs.row_log.encode_table; the old path goes in 1.0",
        DeprecationWarning,
        stacklevel=2,
    )
    return encode_table
