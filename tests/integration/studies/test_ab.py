"""The online experiment shows differences where calibration matters, and none where it cannot."""

from dataclasses import replace

import pytest

from monocal.core.errors import InvalidInput, UnknownName
from monocal.lab.ab import AbPlan, Arm, run_experiment

PLAN = AbPlan(
    "test",
    "?",
    (Arm("raw", "none"), Arm("platt", "platt"), Arm("wide", "wide_logistic")),
    reference="raw",
    n_calibration=20_000,
    n_requests=3000,
    n_bootstrap=200,
)


def test_no_difference_when_one_order_preserving_task_is_ranked():
    outcome = run_experiment(replace(PLAN, arms=PLAN.arms[:2], fusion={"click": 1.0}))
    assert outcome.same_list_share["platt"] == 1.0
    assert all(change == (0.0, 0.0, 0.0) for change in outcome.changes["platt"].values())


def test_calibration_that_uses_features_helps_where_scores_are_biased_by_feature():
    arms = (PLAN.arms[0], PLAN.arms[2])
    outcome = run_experiment(replace(PLAN, arms=arms, fusion={"click": 1.0}, n_calibration=60_000))
    _, low, _ = outcome.changes["wide"]["clicks"]
    assert low > 0.0
    assert outcome.same_list_share["wide"] < 0.5
    assert "| wide |" in outcome.markdown()


def test_same_plan_same_numbers():
    small = replace(PLAN, n_requests=500, n_calibration=5000, arms=PLAN.arms[:2])
    assert run_experiment(small) == run_experiment(small)


def test_wrong_plans_say_what_is_wrong():
    with pytest.raises(UnknownName, match="reference: got 'sirr'"):
        replace(PLAN, reference="sirr")
    with pytest.raises(UnknownName, match="did you mean 'click'"):
        replace(PLAN, fusion={"clik": 1.0})
    with pytest.raises(InvalidInput, match="n_shown: got 99"):
        replace(PLAN, n_shown=99)
    with pytest.raises(UnknownName, match="did you mean 'n_requests'"):
        AbPlan.of({"name": "x", "question": "?", "reference": "r", "arms": [], "n_request": 3})
