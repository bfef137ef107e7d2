"""Order: which pairs of rows changed places."""

import numpy as np
import pytest

from monocal.evaluation.evaluate import evaluate
from monocal.findings.order import order_changes


def changes(rows):
    return order_changes(rows, monotone="strict", uses_features=True)


def test_a_monotone_map_swaps_nobody(make_rows, world):
    truth, labels, _ = world
    found = changes(make_rows(labels, truth, truth**2))
    assert (found.pairs.swapped, found.corrected, found.worsened) == (0.0, 0.0, 0.0)
    assert found.kept_on_top == (1.0, 1.0)


def test_turning_the_order_round_swaps_everybody(make_rows, world):
    truth, labels, _ = world
    found = changes(make_rows(labels, truth, 1.0 - truth))
    assert found.pairs.swapped > 0.999
    assert found.kept_on_top == (0.0, 0.0)


def test_ties_are_counted_apart(make_rows):
    rows = make_rows([0, 1] * 500, np.tile([0.1, 0.2, 0.3, 0.4], 250), np.tile([0.1, 0.1, 0.3, 0.3], 250))
    found = changes(rows).pairs
    assert found.swapped == 0.0
    # two of the sixteen ordered pairs of kinds on each side of the middle
    assert found.tied == pytest.approx(4 / 16, abs=0.01)


def test_auc_rises_by_the_corrected_minus_the_worsened(make_rows, world):
    truth, labels, rng = world
    noisy = truth * np.exp(rng.normal(0.0, 0.7, 40_000))
    before = np.clip(noisy, 0.0, 1.0)
    found = changes(make_rows(labels, before, truth))
    auc = [evaluate(labels, p, metrics=["auc"]).value("auc") for p in (before, truth)]
    assert found.corrected - found.worsened == pytest.approx(auc[1] - auc[0], abs=0.004)


def test_pairs_within_groups_are_counted_within_groups(make_rows, world):
    truth, labels, _ = world
    groups = np.arange(40_000) // 2
    after = truth.copy()
    after[::2] = truth[1::2]
    after[1::2] = truth[::2]
    found = changes(make_rows(labels, truth, after, groups=groups))
    assert found.within_groups.swapped == 1.0
    assert found.pairs.swapped < 0.6
    assert changes(make_rows(labels, truth, after)).within_groups is None
    alone = make_rows(labels, truth, after, groups=np.arange(40_000))
    assert changes(alone).within_groups is None


def test_heavy_rows_are_drawn_more_often(make_rows):
    weights = np.array([1000.0, 1000.0, 1.0, 1.0])
    rows = make_rows([1, 0, 1, 0], [0.1, 0.2, 0.3, 0.4], [0.2, 0.1, 0.3, 0.4], weights=weights)
    assert changes(rows).pairs.swapped == pytest.approx(0.5, abs=0.01)
