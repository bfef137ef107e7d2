"""The gate: its error rates on simulated rows, its words, and what it refuses."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import monocal
from monocal.core.errors import InvalidInput
from monocal.evaluation.paired import PairedLosses, paired_losses
from monocal.evaluation.stats import discoveries
from monocal.monitoring.gate import GateVerdict, _task_verdict, gate, outcome
from monocal.reports.page import write_gate_page

N_WORLDS = 600


def equally_good(random, n, n_cells=0):
    """Two forecasts whose logits err by the same amount in opposite directions, row by row."""
    cells = random.integers(0, max(n_cells, 1), n)
    truth = random.normal(-2.0, 0.7, n)
    error = 0.3 * random.choice([-1.0, 1.0], n)
    labels = (random.random(n) < 1 / (1 + np.exp(-truth))).astype(float)
    # where the error is positive the first predicts too much; drawn at random, so neither is better
    first, second = (1 / (1 + np.exp(-(truth + side * error))) for side in (1.0, -1.0))
    return labels, first, second, cells


def test_equally_good_models_differ_as_often_as_promised():
    random = np.random.default_rng(5)
    found = [paired_losses(*equally_good(random, 1_000)[:3]) for _ in range(N_WORLDS)]
    called_worse = np.mean([paired.p_above(0.0)[0] < 0.05 for paired in found])
    called_better = np.mean([paired.p_below(0.0)[0] < 0.05 for paired in found])
    # three binomial standard errors of 600 worlds beside the promised 5 %
    assert called_worse < 0.05 + 3 * 0.009
    assert called_better < 0.05 + 3 * 0.009
    assert called_worse + called_better > 0.05


def test_no_segment_of_equally_good_models_is_called_worse_more_often_than_promised():
    random = np.random.default_rng(6)
    any_false = 0
    for _ in range(300):
        labels, first, second, cells = equally_good(random, 6_000, 30)
        found = paired_losses(labels, first, second, cells, 30)
        any_false += bool(discoveries(found.p_above(0.0), 0.05).any())
    assert any_false / 300 < 0.05 + 3 * 0.0126


def test_the_error_of_a_difference_is_that_of_a_mean():
    labels, first, second = np.array([0.0, 1.0, 0.0, 1.0, 1.0]), np.full(5, 0.2), np.array([0.3, 0.9, 0.6, 0.7, 0.8])
    found = paired_losses(labels, first, second)
    losses = [-np.log(np.where(labels == 1.0, p, 1.0 - p)) for p in (first, second)]
    assert found.difference[0] == pytest.approx(np.mean(losses[1] - losses[0]))
    assert found.error[0] == pytest.approx(np.std(losses[1] - losses[0], ddof=1) / np.sqrt(5))


def test_rows_of_one_group_are_one_observation():
    random = np.random.default_rng(7)
    alone, together = [], []
    for _ in range(300):
        groups = np.repeat(np.arange(60), 50)
        # every group has its own level, which one forecast misses by as much as the other
        level = np.repeat(0.6 * random.choice([-1.0, 1.0], 60), 50)
        labels = (random.random(3_000) < 1 / (1 + np.exp(1.5 - level))).astype(float)
        side = np.repeat(0.3 * random.choice([-1.0, 1.0], 60), 50)
        first, second = (1 / (1 + np.exp(1.5 - sign * side)) for sign in (1.0, -1.0))
        alone.append(paired_losses(labels, first, second).p_above(0.0)[0] < 0.05)
        together.append(paired_losses(labels, first, second, groups=groups).p_above(0.0)[0] < 0.05)
    assert np.mean(alone) > 0.15
    assert np.mean(together) < 0.05 + 3 * 0.0126


def test_weights_are_repetitions_up_to_the_independence_of_copies():
    random = np.random.default_rng(8)
    labels, first, second, cells = equally_good(random, 400, 3)
    times = random.integers(1, 4, 400)
    weighted = paired_losses(labels, first, second, cells, 3, weights=times.astype(float))
    repeated = np.repeat(np.arange(400), times)
    whole = paired_losses(labels[repeated], first[repeated], second[repeated], cells[repeated], 3, groups=repeated)
    assert np.allclose(weighted.difference, whole.difference)
    assert np.allclose(weighted.error, whole.error)


@pytest.fixture(scope="module")
def log():
    return monocal.simulate_log(60_000, world="affine", seed=3).table()


@pytest.fixture(scope="module")
def models(log):
    fitted = log.slice(0, 20_000)
    options = {"score": "pctr", "label": "click", "time": "timestamp"}
    made = {name: monocal.fit(fitted, method=name, **options) for name in ("none", "platt")}
    return {**made, "shorter": monocal.fit(fitted.slice(10_000), method="platt", **options)}


def test_better_passes_and_worse_does_not(log, models):
    fresh = log.slice(20_000)
    itself = gate(models["platt"], models["platt"], fresh)
    assert (itself.passed, itself.tasks["click"].overall.verdict) == (True, "tie")
    forward = gate(models["none"], models["platt"], fresh, by=["device"])
    assert forward.passed
    assert forward.tasks["click"].overall.verdict == "better"
    assert forward.tasks["click"].segments
    backward = gate(models["platt"], models["none"], fresh, by=["device"])
    assert not backward.passed
    assert backward.tasks["click"].overall.verdict == "worse"
    assert backward.reasons()[0].startswith("click: worse by more than is tolerated: log-loss 0.")
    assert backward.tasks["click"].overall.difference == -forward.tasks["click"].overall.difference


def test_too_few_rows_say_how_many_it_takes(log, models):
    few = gate(models["none"], models["shorter"], log.slice(20_000, 40), max_harm=0.01)
    assert not few.passed
    needed = few.tasks["click"].rows_needed
    assert needed > 40
    assert f"about {needed:,} rows are needed" in few.reasons()[0]
    enough = gate(models["platt"], models["shorter"], log.slice(20_000))
    assert enough.passed


def test_nothing_is_claimed_on_a_handful_of_rows():
    """Every row got better by the same factor, yet twenty-four rows say nothing about the next thousand."""
    table = {"p": [0.2, 0.3] * 12, "y": [0, 1, 1, 1, 1, 0] * 4}
    old, new = (
        monocal.fit({"p": [0.1, 0.3] * 50, "y": [0, 1] * 50}, method=name, score="p", label="y")
        for name in ("none", "platt")
    )
    found = gate(old, new, table)
    assert not found.passed
    assert found.tasks["y"].overall.verdict == "cannot tell"
    assert "too few rows to compare" in str(found)
    assert "nan" not in str(found)


@pytest.mark.parametrize(
    ("low", "high", "verdict", "passes"),
    [
        (-0.0008, 0.0, "tie", True),
        (-0.0001, 0.0005, "tie", True),
        (0.0001, 0.0005, "slightly worse", True),
        (0.0005, 0.0008, "worse", False),
        (0.0, 0.0008, "cannot tell", False),
        (float("nan"), float("nan"), "cannot tell", False),
    ],
)
def test_every_place_of_an_interval_beside_its_limits_has_one_verdict(low, high, verdict, passes):
    assert outcome(low, high, 0.0005)[:2] == (verdict, passes)


def _found(difference, error, n=1_000, tolerated=0.5):
    """A gate on one task where the old log-loss is 1, so that the tolerated share is the tolerated difference."""
    paired = PairedLosses(*(np.array([x]) for x in (float(n), n, 1.0, 1.0 + difference, error)))
    return _task_verdict(paired, tolerated, 0.95, (1.0, 1.0))


def test_a_model_that_is_shown_to_be_worse_is_not_told_to_bring_more_rows():
    found = GateVerdict({"click": _found(0.4, 0.1)}, 1_000, 0.5, 0.95, False, "a", "b")
    assert not found.passed
    assert found.reasons()[0].startswith("click: worse, and more harm than is tolerated cannot be excluded: log-loss")
    assert "rows are needed" not in str(found)


@pytest.mark.parametrize("difference", [-2.0, -0.1, 0.0, 0.2, 0.4, 0.6, 2.0])
def test_more_rows_are_asked_for_than_there_are(difference):
    found = _found(difference, error=3.0)
    assert found.overall.verdict == "cannot tell"
    # 80 % power: the quantiles of 97.5 and of 80 % in standard errors of one row, from here to the farther limit
    farther = max(0.5 - max(difference, 0.0), difference)
    assert found.rows_needed == np.ceil(1_000 * 9.0 * ((1.959964 + 0.8416) / farther) ** 2) > 1_000


def test_harm_in_one_guarded_segment_is_found(log, models):
    fresh = log.slice(20_000)
    values = fresh["device"].to_pylist()
    device = max(set(values), key=values.count)
    # a new model that is right except where the device is that one
    biased = _biased(log.slice(0, 20_000), device)
    harmed = monocal.fit(biased, method="wide_logistic", score="pctr", label="click", fields=["device"])
    found = gate(models["platt"], harmed, fresh, by=["device"], max_harm=0.2)
    worse = found.tasks["click"].worse
    assert [(segment.column, segment.value) for segment in worse] == [("device", str(device))]
    assert not found.passed
    # the whole is worse, too; where it is not, the segment is the reason
    small = replace(found.tasks["click"], tolerated=1.0)
    assert f"worse where device is {device}" in replace(found, tasks={"click": small}).reasons()[0]


def _biased(log, device):
    turned = (log["device"].to_numpy(zero_copy_only=False) == device) & (np.arange(log.num_rows) % 3 == 0)
    clicked = np.where(turned, 1 - log["click"].to_numpy(), log["click"].to_numpy())
    return log.set_column(log.column_names.index("click"), "click", pa.array(clicked))


def test_rows_that_were_learned_from_are_refused(log, models):
    with pytest.raises(InvalidInput, match="10,000 of 30,000 rows not later than the last one that the old model"):
        gate(models["platt"], models["shorter"], log.slice(10_000, 30_000))
    with pytest.raises(InvalidInput, match="20,000 rows, about 100% of which the old model learned from"):
        gate(models["platt"], models["shorter"], log.slice(0, 20_000).drop_columns(["timestamp"]))


def test_what_cannot_be_compared_is_refused(log, models):
    fresh = log.slice(20_000)
    zeros = fresh.set_column(fresh.column_names.index("click"), "click", pa.array(np.zeros(fresh.num_rows)))
    with pytest.raises(InvalidInput, match=r"labels of task 'click': got only 0s in 40,000 rows.*check the join"):
        gate(models["platt"], models["shorter"], zeros)
    with pytest.raises(InvalidInput, match=r"max_harm: got 0.0; expected a share of the old log-loss"):
        gate(models["platt"], models["shorter"], fresh, max_harm=0.0)
    other = monocal.fit(log.slice(0, 20_000), method="platt", tasks={"other": ("click", "pctr")})
    with pytest.raises(InvalidInput, match="a model of other; expected the old model's tasks, click"):
        gate(models["platt"], other, fresh)


def test_the_page_and_the_json_say_the_same(log, models, tmp_path):
    found = gate(models["none"], models["platt"], log.slice(20_000), by=["device"])
    html = write_gate_page(found, tmp_path / "gate.html").read_text()
    facts = json.loads(json.dumps(found.as_dict()))
    assert "<h1>The new model passes</h1>" in html
    assert f"{facts['tasks']['click']['difference']:+.5f}" in html
    for segment in facts["tasks"]["click"]["segments"]:
        assert f"{segment['new']:.5f}" in html
    assert "http" not in html.replace("http-equiv", "")
