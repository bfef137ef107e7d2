"""Folded networks: their table, their budget, and how they are called."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from monocal.compiled import fold as folding
from monocal.compiled.fold import Layer, fold
from monocal.compiled.predict import umc_predictor


@pytest.mark.parametrize("budget", [1 << 20, 40 * 8 * 4])
def test_folding_in_blocks_gives_the_same_table(monkeypatch, budget):
    rng = np.random.default_rng(0)
    sizes, vectors = (7, 20, 50), rng.normal(size=(77, 4))
    layers = [Layer(rng.normal(size=(8, 12)), rng.normal(size=8)), Layer(rng.normal(size=(2, 8)), rng.normal(size=2))]
    whole = fold(sizes, vectors, layers, max_table_bytes=budget)
    monkeypatch.setattr(folding, "_FOLDED_AT_ONCE", 6)
    blocks = fold(sizes, vectors, layers, max_table_bytes=budget)
    assert len(whole.table) == (77 if budget > 10_000 else 27)
    for name in ("plan", "table", "vectors", "projections", "weights"):
        assert np.array_equal(getattr(whole, name), getattr(blocks, name)), name
    by_hand = vectors[7:27] @ layers[0].weights[:, 4:8].T
    assert np.allclose(whole.table[7:27], by_hand, atol=1e-6)


SIZES = [4, 50, 7, 300, 3, 90, 12]


def predictor(**layout):
    random = np.random.default_rng(0)
    state = {"knots": np.array([-1.0, 0.0, 2.0]), "beta": np.zeros(1)}
    for number, (n_in, n_out) in enumerate([(35, 24), (24, 5)]):
        state[f"trunk.layers.{number}.weight"] = random.normal(size=(n_out, n_in)) / 5
        state[f"trunk.layers.{number}.bias"] = random.normal(size=n_out)
    return umc_predictor(state, field_sizes=SIZES, vectors=random.normal(size=(sum(SIZES), 5)), **layout)


def rows(n_rows=150):
    random = np.random.default_rng(0)
    ids = np.stack([random.integers(0, size, n_rows) for size in SIZES], axis=1).astype(np.int32)
    return random.normal(size=n_rows) * 2.0 - 1.0, ids


def test_the_table_keeps_its_budget_and_prefers_small_fields():
    everything, some = predictor(), predictor(max_table_bytes=20_000)
    assert everything.net.vectors.shape[0] == 0
    assert 0 < some.net.table.nbytes <= 20_000
    assert some.net.vectors.shape[0] >= 300
    assert some.net.n_bytes < everything.net.n_bytes


def test_threads_may_share_a_predictor():
    shared, (logits, ids) = predictor(), rows()
    alone = shared.score(logits, ids)
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(lambda _: shared.score(logits, ids), range(20)):
            assert np.array_equal(result, alone)


def test_no_rows_give_no_results_and_ids_of_another_schema_are_refused():
    assert predictor().score(np.empty(0), np.empty((0, len(SIZES)), np.int32)).shape == (0,)
    with pytest.raises(ValueError, match=r"ids have shape \(2, 6\), expected \(2, 7\)"):
        predictor().score(np.zeros(2), np.zeros((2, 6), np.int32))
