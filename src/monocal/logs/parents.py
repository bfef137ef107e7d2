"""Whether each value of a field has one parent, in the rows of a log."""

from __future__ import annotations

import warnings

import numpy as np

from monocal.core.errors import MonocalWarning, UnknownName
from monocal.core.parents import Parents
from monocal.logs.encoded_log import EncodedLog


def check_parents(log: EncodedLog, parents: Parents) -> dict[str, float]:
    """Returns the share of each field's known values that have more than one parent; warns where there are any.

    Such values do no harm: effects of both fields are added row by row. But what is said about them, that a value's
    effect is its deviation from that of its parent, then means the parents of its rows.

    Arguments:
        log: The rows to fit.
        parents: Field to the field above it.
    """
    shares = {}
    for child, parent in parents.items():
        for name in (child, parent):
            if name not in log.field_names:
                raise UnknownName.among("field of parents", name, log.field_names)
        places = [log.field_names.index(name) for name in (child, parent)]
        of_child, of_parent = (np.asarray(log.features[:, place], dtype=np.int64) for place in places)
        n_parents = log.field_sizes[places[1]]
        pairs = np.unique((of_child * n_parents + of_parent)[of_child > 0])
        values, counts = np.unique(pairs // n_parents, return_counts=True)
        several = values[counts > 1]
        shares[child] = several.size / max(values.size, 1)
        if several.size:
            field = log.vocabulary[child]
            example = repr(field.values[int(several[0]) - 1].as_py()) if field.n_buckets is None else f"id {several[0]}"
            warnings.warn(
                f"{several.size:,} of {values.size:,} values of {child!r} have more than one {parent!r} in the rows "
                f"of the fit, for example {example}. Way out: check the join that brought {parent!r}; if a value "
                "truly has several, nothing need be done",
                MonocalWarning,
                stacklevel=4,
            )
    return shares
