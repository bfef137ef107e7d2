"""Replicates that are added up together have the bits that each has alone."""

import numpy as np
import pytest

from monocal.metrics import sums
from monocal.metrics.blocks import block_sums
from monocal.metrics.sums import reweighted_sums


@pytest.mark.parametrize("most_numbers", [1, 7 * 3000, 1 << 22])
def test_replicates_at_once_have_the_bits_of_replicates_one_by_one(monkeypatch, most_numbers):
    monkeypatch.setattr(sums, "_MOST_NUMBERS", most_numbers)
    random = np.random.default_rng(0)
    cells, blocks = random.integers(0, 3000, 20_000), random.integers(0, 512, 20_000).astype(np.int32)
    amounts = random.random(20_000)
    tables = {
        "sparse": block_sums(cells, 3000, amounts, None, blocks, 512),
        "dense": block_sums(cells % 4, 4, amounts, None, blocks, 512),
    }
    assert not isinstance(tables["sparse"], np.ndarray)
    assert isinstance(tables["dense"], np.ndarray)
    counts = random.integers(0, 3, (20, 512)).astype(np.float64)
    states = list(reweighted_sums(tables, counts))
    assert len(states) == len(counts)
    for state, count in zip(states, counts, strict=True):
        for key, table in tables.items():
            np.testing.assert_array_equal(state[key], table @ count)
