"""What was learned: curves and sweeps."""

from types import SimpleNamespace

import numpy as np
import pytest

import monocal
from monocal.calibrators import calibrator
from monocal.core.scores import logit
from monocal.reports.curves import learned_curves, sample_contexts, sweep_monotone
from monocal.tables.table import Table

# what is shown is asked here, not how good a model is: rows of its fit will do
pytestmark = pytest.mark.filterwarnings("ignore:the model was fitted on about")


def learned(method, **arguments):
    log = monocal.simulate_log(8_000, seed=4).table()
    method = calibrator(method, **arguments)
    model = monocal.fit(log, method=method, score="pctr", label="click", fields=["device", "position", "hour"])
    rows = Table.read(log, model.roles())
    contexts = sample_contexts(model.vocabulary.encode_columns(rows.fields, rows.n_rows))
    return model, learned_curves(model.task().calibrator, model.vocabulary, rows.logits("click"), contexts)


def test_the_extremes_are_extreme_and_the_values_that_set_them_apart_are_named():
    model, found = learned("wide_logistic")
    shifts = {curve.name: curve.shift for curve in found.curves}
    assert shifts["raised most"] == max(shifts.values())
    assert shifts["lowered most"] == min(shifts.values())
    assert shifts["lowered most"] < shifts["typical"] < shifts["raised most"]
    assert "only unseen values" in shifts
    raised = next(curve for curve in found.curves if curve.name == "raised most")
    assert 1 <= len(raised.values) <= 2
    assert {field for field, _ in raised.values} <= set(model.field_names)


def test_a_feature_blind_method_has_one_curve():
    model, found = learned("platt")
    assert [curve.name for curve in found.curves] == ["every row"]
    expected = model.task().calibrator.predict(found.scores)
    assert found.curves[0].calibrated == pytest.approx(expected)


@pytest.mark.parametrize("method", ["platt", "wide_logistic", "isotonic", "umc"])
def test_the_sweep_finds_no_fall_in_monotone_methods(method):
    _, found = learned(method)
    assert found.sweep.holds
    assert found.sweep.n_steps >= 2_000 * found.sweep.n_contexts
    # sixty-four feature rows, fewer where the extreme ones are among the frequent ones
    assert found.sweep.n_contexts in (range(60, 65) if method in ("wide_logistic", "umc") else [1])
    assert (found.sweep.n_ties > 0) == (method == "isotonic")


def test_the_sweep_finds_a_fall_and_says_where():
    wavy = SimpleNamespace(tags=SimpleNamespace(monotone="none"), predict_data=lambda rows: np.sin(rows.z))
    found = sweep_monotone(wavy, None)
    assert not found.holds
    assert "the prediction falls" in found.fall


def test_curves_are_those_of_the_model():
    model, found = learned("wide_logistic", recent_share=0.2)
    unseen = found.curves[-1]
    table = {"pctr": found.scores, **{name: ["never met"] * len(found.scores) for name in model.field_names}}
    assert logit(unseen.calibrated) == pytest.approx(logit(model.predict(table)))
    assert found.recent_shift != 0.0
