"""Arrays in safetensors files, written without a second copy in memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import ArtefactError

_NAMES = {"float32": "F32", "float64": "F64", "int64": "I64", "int32": "I32", "bool": "BOOL"}


def write_tensors(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Writes contiguous arrays one after the other behind a JSON header, as the safetensors format asks.

    The official writer turns all arrays into one byte string first; an embedding table of several gigabytes would
    need twice its memory.
    """
    header: dict[str, Any] = {}
    end = 0
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    for name, array in whole.items():
        kind = _NAMES[array.dtype.name]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little"))
        stream.write(text)
        for array in whole.values():
            array.tofile(stream)


def read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """Reads every array of a safetensors file; anything damaged is refused."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="np") as source:
            return {name: source.get_tensor(name) for name in source.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ArtefactError(f"{path} cannot be read ({error}); nothing was loaded") from error
