"""Rows of a report made by hand."""

import numpy as np
import pytest

from monocal.core.scores import logit
from monocal.reports.rows import BeforeAfter, FieldColumn, TaskRows


@pytest.fixture
def make_rows():
    """Builds rows from labels and two forecasts; fields are integer columns by name."""

    def make(labels, before, after=None, fields=None, **columns):
        before = np.asarray(before, dtype=np.float64)
        made = tuple(
            FieldColumn(name, np.asarray(ids, dtype=np.int32), tuple(f"{name}_{k}" for k in range(max(ids) + 1)), 0.0)
            for name, ids in (fields or {}).items()
        )
        return TaskRows(
            labels=np.asarray(labels, dtype=np.float64),
            logits=logit(before),
            forecasts=BeforeAfter(before, before if after is None else np.asarray(after, dtype=np.float64)),
            fields=made,
            **columns,
        )

    return make


@pytest.fixture
def world():
    """True probabilities of 40,000 rows, labels drawn from them, and the generator that drew them."""
    rng = np.random.default_rng(7)
    truth = rng.uniform(0.01, 0.2, 40_000)
    return truth, (rng.random(40_000) < truth).astype(float), rng
