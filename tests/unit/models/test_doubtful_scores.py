"""A score that cannot be meant, and a label that is mostly unknown, are named when they are fitted."""

import warnings

import numpy as np
import pytest

import monocal
from monocal.core.errors import MonocalWarning

RNG = np.random.default_rng(0)
P = RNG.uniform(0.05, 0.6, 2_000)
CLICK = (RNG.random(2_000) < P).astype(np.int8)
MISSING = np.where(np.arange(2_000) % 2, None, CLICK)

DOUBTFUL = {
    "reversed": ({"p": 1.0 - P, "y": CLICK}, "score: got 'p', which is higher where 'y' did not happen"),
    "constant": ({"p": np.full(2_000, 0.2), "y": CLICK}, "score: got 'p', which is 0.2 in every row"),
    "the label": ({"p": CLICK.astype(float), "y": CLICK}, "score: got 'p', which equals the label 'y' in every row"),
    "half unknown": ({"p": P, "y": MISSING}, "label: got 'y', which is null in 1,000 of 2,000 rows"),
}


@pytest.mark.parametrize("case", DOUBTFUL)
def test_doubtful_columns_are_named(case):
    table, message = DOUBTFUL[case]
    with pytest.warns(MonocalWarning, match=message):
        monocal.fit(table, method="platt", score="p", label="y")
    with pytest.warns(MonocalWarning, match=message):
        monocal.compare(table, methods=["platt"], score="p", label="y", n_bootstrap=5)


def test_nothing_is_said_of_good_columns_nor_of_tasks_that_rows_do_not_have():
    soft = np.clip(P + RNG.normal(0.0, 0.05, 2_000), 0.0, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        monocal.fit({"p": P, "y": CLICK}, method="platt", score="p", label="y")
        monocal.fit({"p": RNG.random(2_000), "y": CLICK}, method="platt", score="p", label="y")
        monocal.fit({"p": P, "y": soft}, method="platt", score="p", label="y", soft_labels=True)
        table = {"p": P, "q": P, "y": CLICK, "z": MISSING}
        monocal.fit(table, method="platt", tasks={"y": ("y", "p"), "z": ("z", "q")})
