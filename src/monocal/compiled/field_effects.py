"""The shift of every row's value of every field."""

from __future__ import annotations

from typing import Any

from monocal.compiled.jit import compiled


@compiled()
def write_effects(features: Any, shifts: Any, offsets: Any, found: Any) -> None:
    """Writes what each field adds on each row.

    Arguments:
        features: Field ids `(n, F)`, each below its field's size.
        shifts: Of all ids, field after field.
        offsets: Where each field starts among them.
        found: `(n, F)`, overwritten.
    """
    for row in range(features.shape[0]):
        for field in range(features.shape[1]):
            found[row, field] = shifts[offsets[field] + features[row, field]]
