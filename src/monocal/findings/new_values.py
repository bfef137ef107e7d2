"""What a forecast is worth on values that the fit saw rarely or never."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from monocal.core.samples import Ids
from monocal.core.spaces import Floats
from monocal.evaluation.fields import SeenBand, by_times_seen
from monocal.findings.rows import TaskRows
from monocal.models.facts import times_seen
from monocal.models.model import Model


def rows_seen(model: Model, known: Mapping[str, Ids]) -> dict[str, NDArray[np.int64]]:
    """Returns categorical field to how many rows of the fit had each row's value; empty if the model does not know.

    Arguments:
        model: The model.
        known: Its fields in the numbering of its vocabulary.
    """
    if not model.value_counts:
        return {}
    found = dict(zip(known, times_seen(model.value_counts, np.stack(list(known.values()), axis=1)), strict=True))
    return {name: found[name] for name in model.vocabulary.category_names}


def new_and_rare_values(rows: TaskRows) -> dict[str, list[SeenBand]]:
    """Returns field to errors by how often values were seen; a field whose values were all frequent is left out.

    Arguments:
        rows: The observed rows of one task.
    """
    stages: dict[str, Floats] = {"before": rows.forecasts.before, "after": rows.forecasts.after}
    found = {name: by_times_seen(seen, rows.labels, stages, rows.weights) for name, seen in rows.times_seen.items()}
    return {name: bands for name, bands in found.items() if len(bands) > 1}
