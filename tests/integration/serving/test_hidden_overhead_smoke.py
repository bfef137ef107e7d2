"""The study of heads on the ranker's hidden layer at the size of a unit test: its arms answer what they claim to."""

import importlib
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("numba")

FOLDER = Path(__file__).parents[3] / "benchmarks" / "serving"
MODULES = ("hidden_overhead", "overhead", "hidden_head", "hidden_layer")


@pytest.fixture(scope="module")
def study():
    before = list(sys.path)
    sys.path.insert(0, str(FOLDER))
    yield importlib.import_module("hidden_overhead")
    sys.path[:] = before
    for name in MODULES:
        sys.modules.pop(name, None)


def made_up(n_rows: int, n_units: int) -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(0)
    z, hidden = random.normal(-1, 1, n_rows), np.maximum(random.normal(0, 1, (n_rows, n_units)), 0).astype(np.float32)
    labels = random.random(n_rows) < 1 / (1 + np.exp(-z * (0.5 + hidden[:, 0]) - hidden[:, 1]))
    return z, labels.astype(np.float64), hidden


def test_heads_answer_requests_through_an_engine_as_they_do_without(study):
    world = study.world_of_requests()
    fields = tuple(replace(field, size=min(field.size, 40)) for field in world.fields)
    ranked = study.prepare(2_000, 3, replace(world, fields=fields, n_users=40), hidden=(16, 8))
    chosen = "hidden layer: shift, linear", "hidden layer: knots, 16 units between; shifts by field"
    arms = study.arms_of(ranked, engines=(), heads=chosen)
    answers = {name: arm(ranked.requests[0]) for name, arm in arms.items()}
    assert len(answers) == 1 + 2 * len(chosen)
    for name in chosen:
        np.testing.assert_array_equal(answers[name], answers[f"{name}, bare"])
        assert not np.allclose(answers[name], answers[study.RAW])


@pytest.mark.parametrize("trunk", [(), (16,)])
@pytest.mark.parametrize("factor", [1.0, 300.0], ids=["as trained", "sharp"])
def test_a_head_never_falls_in_the_score(study, trunk, factor):
    z, labels, hidden = made_up(4_000, 8)
    head = study.HiddenHead(trunk=trunk).fit(z, labels, hidden, np.arange(len(z)), None)
    assert head.share_ > 0.0
    with torch.no_grad():
        head.curve_.trunk.last.weight *= factor
    scorers = study.HiddenScorers([head], wide=False)
    grid = np.linspace(-8, 8, 2_001)
    for row in hidden[:20]:
        scorers.hidden = np.ascontiguousarray(np.repeat(row[None], len(grid), axis=0))
        found = scorers.logits(grid[None], np.ones((len(grid), 1), np.int32))
        assert np.diff(found[0]).min() >= 0.0
