"""States of metrics as bytes: what one process summed up, another adds to its own. Nothing is pickled."""

from __future__ import annotations

import numpy as np

from monocal.core.errors import InvalidInput
from monocal.metrics.order import OrderedCells
from monocal.metrics.sums import Sums

PackedState = Sums | OrderedCells

_SUMS, _ORDER, _SKETCH = "sums/", "order/", "sketch/"


def pack(state: PackedState) -> bytes:
    """Returns a state as the bytes of a safetensors file.

    Example:
        >>> packed = pack(Sums({"weight": np.array([2.0])}))
        >>> unpack(packed)["weight"].tolist()
        [2.0]
    """
    from safetensors.numpy import save

    if isinstance(state, Sums):
        arrays = {_SUMS + name: array for name, array in state.arrays.items()}
    elif isinstance(state, OrderedCells):
        prefix = _ORDER if state.exact else _SKETCH
        arrays = {prefix + name: getattr(state, name) for name in ("keys", "weight", "positive")}
        if state.sums is not None:
            arrays[prefix + "sums"] = state.sums
    else:
        raise InvalidInput.of(
            "state", f"a {type(state).__name__}", "sums or ordered cells", "use a metric whose state stays small"
        )
    return bytes(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))


def unpack(data: bytes) -> PackedState:
    """Returns the state that `pack` packed, bit for bit."""
    from safetensors.numpy import load

    arrays = load(data)
    prefix = next(iter(arrays)).split("/")[0] + "/"
    named = {name.removeprefix(prefix): array for name, array in arrays.items()}
    if prefix == _SUMS:
        return Sums(named)
    return OrderedCells(
        named["keys"], named["weight"], named["positive"], exact=prefix == _ORDER, sums=named.get("sums")
    )
