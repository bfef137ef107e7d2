"""While a calibrator is fitted on a table, the ids of its fields are in memory once."""

import weakref

import numpy as np
import pytest

from monocal import compare, fit
from monocal.evaluation import compare as comparing
from monocal.models import fit as fitting

COLUMNS = {"score": "p", "label": "y", "fields": ["site"], "time": "t"}


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    p = rng.random(500)
    return {"p": p, "y": rng.binomial(1, p), "site": rng.choice(["a", "b"], 500), "t": rng.permutation(500)}


def watched(monkeypatch, module, owner, encodes):
    """Says at the beginning of every fit whether the ids that were read are still there."""
    read, alive = [], []
    encode, learn = getattr(owner, encodes), module.fit_log

    def encoding(rows, *arguments, **options):
        read.append(weakref.ref(rows.fields["site"].ids))
        return encode(rows, *arguments, **options)

    def learning(*arguments, **options):
        alive.append(read[-1]() is not None)
        return learn(*arguments, **options)

    monkeypatch.setattr(owner, encodes, encoding)
    monkeypatch.setattr(module, "fit_log", learning)
    return alive


def test_a_fit_lets_go_of_the_rows_it_read(monkeypatch, table):
    alive = watched(monkeypatch, fitting, fitting.Table, "encoded")
    fit(table, method="platt", **COLUMNS)
    assert alive == [False]


def test_a_comparison_lets_go_of_them_too(monkeypatch, table):
    alive = watched(monkeypatch, comparing, comparing, "hold_out")
    compare(table, methods=["platt"], n_bootstrap=5, **COLUMNS)
    assert alive == [False, False]
