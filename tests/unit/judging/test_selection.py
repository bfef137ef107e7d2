"""Selected rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monocal.core.errors import InvalidInput
from monocal.judging.selection import ranks_within, selection


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0.1, 0.2, 0.3])), min_size=1, max_size=30),
)
def test_ranks_are_places_in_the_sorted_group(rows):
    groups, scores = np.array([g for g, _ in rows]), np.array([s for _, s in rows])
    ranks = ranks_within(scores, groups)
    for group in set(groups.tolist()):
        members = np.flatnonzero(groups == group)
        expected = sorted(members, key=lambda row: (-scores[row], row))
        assert [int(ranks[row]) for row in expected] == list(range(1, len(members) + 1))


def test_weights_and_tables():
    rng = np.random.default_rng(1)
    p = rng.uniform(0.05, 0.3, 4000)
    y, w = rng.random(4000) < p, rng.integers(1, 4, 4000)
    queries = np.repeat(np.arange(400), 10)
    ranks = ranks_within(p, queries)
    found = selection(y, p, ranks <= 2, ranks=ranks, weights=w, groups=queries, n_bootstrap=20)
    top = ranks <= 2
    assert found.selected_pcoc == pytest.approx((w * p)[top].sum() / (w * y)[top].sum())
    assert found.pcoc == pytest.approx((w * p).sum() / (w * y).sum())
    assert found.optimism == pytest.approx(found.selected_pcoc / found.pcoc)
    assert sorted(found.by_rank.values) == [1, 2]
    assert found.by_decile["n_rows"].sum() == found.n_selected == 800
    assert found.as_dict()["by_rank"]["rank"] == found.by_rank.values


def test_nothing_selected():
    with pytest.raises(InvalidInput, match="selection: got no selected row"):
        selection([0, 1], [0.1, 0.2], np.array([False, False]))
