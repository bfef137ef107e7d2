"""While a calibrator is fitted on a table, the ids of its fields are in memory once."""

import weakref

import numpy as np
import pytest

from monocal import fit, fit_and_evaluate
from monocal.evaluation import table as evaluation_table
from monocal.models import fit as fitting

COLUMNS = {"score": "p", "label": "y", "fields": ["site"], "time": "t", "method": "platt"}


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
    fit(table, **COLUMNS)
    assert alive == [False]


def test_a_judged_fit_keeps_them_only_to_fit_again(monkeypatch, table):
    alive = watched(monkeypatch, evaluation_table, evaluation_table, "hold_out")
    once = fit_and_evaluate(table, **COLUMNS)
    assert alive == [False]
    again = fit_and_evaluate(table, refit=True, **COLUMNS)
    assert alive == [False, True, True]
    assert again.tasks["y"].as_dict() == once.tasks["y"].as_dict()
