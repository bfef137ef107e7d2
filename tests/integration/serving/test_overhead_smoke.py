"""The overhead study at the size of a unit test: it runs, and its arms answer what they claim to."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("numba")

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "serving" / "overhead.py"


@pytest.fixture(scope="module")
def overhead():
    spec = importlib.util.spec_from_file_location("overhead_study", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    # dataclasses look their module up by name
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def ranked(overhead):
    world = overhead.world_of_requests()
    fields = tuple(replace(field, size=min(field.size, 40)) for field in world.fields)
    return overhead.prepare(2_000, 3, replace(world, fields=fields, n_users=40), hidden=(16, 8))


def test_request_scorer_agrees_with_the_ranker(ranked):
    rows = ranked.log.features[:100]
    np.testing.assert_allclose(ranked.scorer(rows), ranked.logits[:100], rtol=1e-4, atol=1e-5)


def test_every_arm_is_measured_on_the_same_requests(overhead, ranked):
    engine = overhead.engine_of(ranked, {"size": "small"})
    ids = ranked.requests[0]
    usual = overhead.answer_calibrated(ranked, engine, ids)
    assert not np.allclose(usual, overhead.answer_raw(ranked, ids))
    taken = overhead.measure(ranked, {"small": engine}, n_blocks=1)
    assert set(taken) == {"raw", "small"}
    assert all(times.shape == (overhead.BLOCK_REQUESTS, 2) for times in taken.values())
    assert len(overhead.lines_of(taken)) == 2


def test_qin_answers_requests_of_users_with_a_past(overhead):
    ranked = overhead.prepare_qin(3_000, 4, hidden=(16,), n_recent=20, n_by_query=10, n_by_item=5)
    logits = ranked.scorer(ranked.requests[0])
    assert logits.shape == (overhead.N_CANDIDATES, 3)
    assert np.ptp(logits, axis=0).min() > 0.0
    engine = overhead.engine_of(ranked, {"size": "small"})
    assert overhead.answer_calibrated(ranked, engine, ranked.requests[1]).shape == (overhead.N_CANDIDATES,)
