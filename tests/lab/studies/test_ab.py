"""The online experiment shows differences where calibration matters, and none where it cannot."""

from dataclasses import replace

import numpy as np
import pytest

from monocal.core.errors import InvalidInput, UnknownName
from monocal.lab.ab import AbPlan, Arm, run_experiment
from monocal.lab.ab.search_traffic import SearchStage

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


def test_a_trained_ranker_answers_the_requests_of_the_search_world():
    """A fused order of three calibrated heads; requests know the past of their users, luck belongs to candidates."""
    plan = replace(
        PLAN,
        world="search",
        ranker="qin",
        ranker_arguments={"hidden": [16], "batch_rows": 512, "n_recent": 20, "n_by_query": 10, "n_by_item": 5},
        n_training=6000,
        n_calibration=6000,
        n_requests=200,
        n_bootstrap=50,
        arms=PLAN.arms[:2],
    )
    outcome = run_experiment(plan)
    assert outcome == run_experiment(plan)
    assert outcome.per_request["raw"]["clicks"] > 0.2
    assert outcome.same_list_share["platt"] < 1.0
    same_order = run_experiment(replace(plan, fusion={"click": 1.0}))
    assert all(change == (0.0, 0.0, 0.0) for change in same_order.changes["platt"].values())
    assert "ranker qin trained on 6,000 impressions" in outcome.markdown()


def test_requests_of_the_search_world_have_the_whole_past_of_their_users():
    plan = replace(
        PLAN,
        world="search",
        ranker="hashed_logistic",
        ranker_arguments={"tasks": ["click"]},
        n_training=3000,
        n_calibration=3000,
        n_candidates=4,
        n_shown=2,
        fusion={"click": 1.0},
    )
    stage = SearchStage(plan)
    asked = stage.requests(0, 50)
    past = stage._as_log(asked.features).histories
    users = stage._log.features[:, 0]
    for row in range(0, 200, 7):
        events = past.last(np.array([row]), 10_000)[0]
        events = events[events >= 0]
        assert np.array_equal(np.sort(events), np.flatnonzero(users == asked.features[row, 0]))
        assert np.all(np.diff(events) < 0)  # newest first


def test_wrong_plans_say_what_is_wrong():
    with pytest.raises(UnknownName, match="reference: got 'sirr'"):
        replace(PLAN, reference="sirr")
    with pytest.raises(UnknownName, match="did you mean 'click'"):
        replace(PLAN, fusion={"clik": 1.0})
    with pytest.raises(InvalidInput, match="n_shown: got 99"):
        replace(PLAN, n_shown=99)
    with pytest.raises(UnknownName, match="did you mean 'n_requests'"):
        AbPlan.of({"name": "x", "question": "?", "reference": "r", "arms": [], "n_request": 3})
    with pytest.raises(InvalidInput, match="ranker: got 'qin' in the world 'multitask'"):
        replace(PLAN, ranker="qin")
