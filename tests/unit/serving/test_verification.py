"""What a model must show before it is let near a request."""

from dataclasses import replace

import numpy as np
import pytest

import monocal
from monocal.core.errors import ArtefactError
from monocal.core.scores import sigmoid
from monocal.models.artefact import verify_model


@pytest.fixture
def platt(log):
    return monocal.fit(log, method="platt", score="pctr", label="click")


def test_other_answers_than_at_fit_time_are_refused(platt):
    off = {**platt.canary, "answer0": platt.canary["answer0"] + 1e-4}
    with pytest.raises(ArtefactError, match=r"canary rows differ by 1\.00e-04 from their answers at fit time"):
        verify_model(replace(platt, canary=off))


def test_answers_that_are_no_probabilities_are_refused(platt):
    platt.tasks[0].calibrator.intercept_ = float("nan")
    with pytest.raises(ArtefactError, match="task 'click': some answers are not probabilities"):
        verify_model(replace(platt, canary={}))


@pytest.mark.parametrize("off", [1e-3, -1e-3])
def test_answers_beyond_0_and_1_are_refused_even_if_they_rise(platt, monkeypatch, off):
    calibrator = platt.tasks[0].calibrator
    monkeypatch.setattr(type(calibrator), "row_scorer", lambda _: lambda logits, ids: sigmoid(logits) + off)
    with pytest.raises(ArtefactError, match="task 'click': some answers are not probabilities"):
        verify_model(replace(platt, canary={}))


@pytest.mark.parametrize(
    "broken",
    [
        lambda logits, ids, answers: np.where((ids == 0).all(axis=1), 1.0 - answers, answers),
        lambda logits, ids, answers: np.where((ids > 0).any(axis=1) & (np.abs(logits) > 8.0), 0.5, answers),
    ],
    ids=["unseen values alone", "known values, between the canary's scores"],
)
def test_a_fall_for_some_rows_alone_is_noticed(model, monkeypatch, broken):
    assert (model.canary["ids"] > 0).any(axis=1).all(), "the canary holds a row of unseen values itself"
    calibrator = model.tasks[0].calibrator
    sound = calibrator.row_scorer()
    monkeypatch.setattr(
        type(calibrator), "row_scorer", lambda _: lambda logits, ids: broken(logits, ids, sound(logits, ids))
    )
    with pytest.raises(ArtefactError, match="the prediction falls .* though wide_logistic is monotone"):
        verify_model(model)


def test_the_canary_of_every_task_counts(log):
    """A number that is not one in the second task is not hidden by the first task's good answers."""
    tasks = {"one": ("click", "pctr"), "two": ("click", "pctr")}
    model = monocal.fit(log, method="platt", tasks=tasks)
    model.verify_canary()
    for index in range(2):
        off = {**model.canary, f"answer{index}": np.full_like(model.canary["answer0"], np.nan)}
        with pytest.raises(ArtefactError, match="canary rows differ by nan"):
            replace(model, canary=off).verify_canary()
