"""What a model remembers of its rows does not depend on who fitted it, and takes no memory as long as the log."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from monocal.calibrators import calibrator
from monocal.core.reduce import DEALT_ROWS
from monocal.lab.simulator import simulate_log
from monocal.lab.thread_reducer import run_members
from monocal.models import facts
from monocal.models.facts import N_KEPT, count_values, row_sample, rows_fact
from monocal.models.fit import fit_log
from monocal.tables.roles import Roles
from monocal.tables.table import Table

ROLES = Roles(score="pctr", label="click", fields=["site_id", "device"], time="timestamp")


@pytest.fixture(scope="module")
def log():
    return Table.read(simulate_log(5 * DEALT_ROWS, seed=3).table(), ROLES).in_time_order().encoded()


@pytest.fixture(scope="module")
def alone(log):
    return fit_log(log, calibrator("wide_logistic"))


def same_facts(found, wanted):
    assert found.info["n_rows"] == wanted.info["n_rows"]
    assert found.info["learned_from"] == wanted.info["learned_from"]
    assert found.info["row_sample"] == wanted.info["row_sample"]
    for counts, expected in zip(found.value_counts, wanted.value_counts, strict=True):
        np.testing.assert_array_equal(counts, expected)
    facts, expected = found.info["tasks"]["click"], wanted.info["tasks"]["click"]
    assert facts["n_rows"] == expected["n_rows"]
    assert facts["score_edges_logit"].tolist() == expected["score_edges_logit"].tolist()
    assert facts["score_shares"].tolist() == expected["score_shares"].tolist()
    for name in ("label_rate", "mean_score"):
        assert facts[name] == pytest.approx(expected[name], rel=1e-13)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_members_remember_together_what_one_process_remembers(log, alone, size):
    def fit(team):
        return fit_log(log, calibrator("wide_logistic"), n_shards=3, team=team)

    for member in run_members(size, fit):
        same_facts(member, alone)


def test_rows_without_a_label_are_remembered_alike(log):
    labels = log.labels["click"].copy()
    labels[:: DEALT_ROWS // 3] = -1
    labels[DEALT_ROWS : 2 * DEALT_ROWS] = -1  # a whole block of the second shard
    partly = replace(log, labels={"click": labels})
    wanted = fit_log(partly, calibrator("wide_logistic"))
    for member in run_members(2, lambda team: fit_log(partly, calibrator("wide_logistic"), n_shards=2, team=team)):
        same_facts(member, wanted)


def test_a_sample_of_many_rows_is_the_one_of_all_of_them(log, monkeypatch):
    rows = log
    wanted = row_sample(rows, log.features)
    assert len(wanted["marks"]) == N_KEPT
    monkeypatch.setattr(facts, "_MOST_HELD", 4 * N_KEPT)
    assert row_sample(rows, log.features)["marks"] == wanted["marks"]
    rounded = replace(rows, scores={"click": np.round(rows.scores["click"], 1)})
    assert row_sample(rounded, np.zeros((rows.n_rows, 0), np.int32)) == {}


def test_facts_take_memory_for_a_block_of_rows(log):
    many = np.tile(log.features, (40, 1))
    rows = log.take(np.tile(np.arange(log.n_rows), 40))
    tracemalloc.start()
    try:
        rows_fact(rows)
        count_values(many, log.encoding[1].sizes)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # one column of doubles would be 6.6 MB
    assert peak < 8 * rows.n_rows
