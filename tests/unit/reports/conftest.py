"""Rows made by hand, with two forecasts of their labels."""

import pytest

from monocal.evaluation.result import EvaluationOptions
from monocal.evaluation.table import evaluate_rows
from monocal.tables.roles import Roles
from monocal.tables.table import Table


@pytest.fixture
def evaluated():
    """Returns rows and their evaluation by value from labels, two forecasts and fields as columns of numbers."""

    def make(labels, before, after=None, **fields):
        columns = {name: [f"{name}_{number}" for number in ids] for name, ids in fields.items()}
        rows = Table.read({"y": labels, "p": before, **columns}, Roles(score="p", label="y", slices=list(fields)))
        options = EvaluationOptions(["log_loss"], tuple(fields), n_bootstrap=2, n_floor=2)
        return rows, evaluate_rows(rows, {"y": before if after is None else after}, options)["y"]

    return make
