"""The table of a folded network does not depend on how much of it is computed at once."""

import numpy as np
import pytest

from monocal.compiled import folded_net
from monocal.compiled.folded_net import Layer, fold


@pytest.mark.parametrize("budget", [1 << 20, 40 * 8 * 4])
def test_folding_in_blocks_gives_the_same_table(monkeypatch, budget):
    rng = np.random.default_rng(0)
    sizes, vectors = (7, 20, 50), rng.normal(size=(77, 4))
    layers = [Layer(rng.normal(size=(8, 12)), rng.normal(size=8)), Layer(rng.normal(size=(2, 8)), rng.normal(size=2))]
    whole = fold(sizes, vectors, layers, max_table_bytes=budget)
    monkeypatch.setattr(folded_net, "_FOLDED_AT_ONCE", 6)
    blocks = fold(sizes, vectors, layers, max_table_bytes=budget)
    assert len(whole.table) == (77 if budget > 10_000 else 27)
    for name in ("plan", "table", "vectors", "projections", "weights"):
        assert np.array_equal(getattr(whole, name), getattr(blocks, name)), name
    by_hand = vectors[7:27] @ layers[0].weights[:, 4:8].T
    assert np.allclose(whole.table[7:27], by_hand, atol=1e-6)
