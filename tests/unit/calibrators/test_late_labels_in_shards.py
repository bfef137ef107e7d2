"""Labels that may still come, fitted by a team."""

from dataclasses import replace

import numpy as np
import pytest

import monocal
from monocal.core.errors import InvalidInput
from monocal.core.team import DEALT_ROWS, Alone
from monocal.lab.simulator import delay_labels, simulate_log
from monocal.models.fit import FitOptions, fit_log
from monocal.tables.roles import Roles
from monocal.tables.table import Table
from monocal.testing.teams import run_team

LATE = {"event_time": "timestamp", "label_time": "label_time", "window": str(7 * 86_400)}
COLUMNS = {"score": "pctr", "label": "click", "fields": ["ad_id", "device"]}
WIDE, CARRIED = FitOptions("wide_logistic"), FitOptions("wide_logistic", {"carry": "auto", "recent_share": 0.2})
NETWORK = FitOptions("umc", {"size": "small", "n_dimensions": 4, "n_epochs": 1})


@pytest.fixture(scope="module")
def table():
    return delay_labels(simulate_log(20_000, seed=0).table())


@pytest.fixture(scope="module")
def late(table):
    """Encoded rows that know how mature each of them is."""
    return Table.read(table, Roles.of(**COLUMNS, **LATE)).in_time_order().encoded()


def bits(model):
    state = model.tasks[0].calibrator.state()
    return {name: array.tobytes() for name, array in state.arrays.items()}, state.values


def assert_same_for_any_team(rows, asked, sizes, n_shards=4):
    alone = bits(fit_log(rows, asked, team=Alone(), n_shards=n_shards))
    for size in sizes:
        team = run_team(size, lambda team: bits(fit_log(rows, asked, team=team, n_shards=n_shards)))
        assert team == [alone] * size


@pytest.mark.parametrize("asked", [WIDE, CARRIED], ids=["plain", "carried"])
def test_the_same_shards_give_the_same_bits_for_any_team(late, asked):
    assert_same_for_any_team(late, asked, (2, 4))


def test_so_do_those_of_a_network(late):
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert_same_for_any_team(late, NETWORK, (2,), n_shards=3)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(("asked", "rtol"), [(WIDE, 1e-8), (CARRIED, 1e-4)], ids=["plain", "carried"])
def test_answers_are_those_of_one_machine(table, late, asked, rtol):
    plain, found = (fit_log(late, asked, n_shards=n).predict(table) for n in (1, 3))
    np.testing.assert_allclose(found, plain, rtol=rtol)


def test_rows_count_as_far_as_their_labels_have_come(table, late):
    found, naive = (
        fit_log(replace(late, maturity=known), WIDE, n_shards=3).predict(table) for known in (late.maturity, None)
    )
    final = table["final_click"].to_numpy().mean()
    assert naive.mean() < 0.85 * final
    assert found.mean() == pytest.approx(final, rel=0.1)


def test_a_member_without_rows_or_without_mature_ones_takes_part(late):
    few = late.take(slice(0, DEALT_ROWS - 100))
    assert_same_for_any_team(few, WIDE, (2,), n_shards=2)
    # of 10,000 rows the third member has the last 1,808: negatives that say nothing yet
    part = late.take(slice(0, 10_000))
    young = np.where(np.arange(10_000) < 2 * DEALT_ROWS, 1.0, 0.0)
    labels = {"click": np.where(young > 0.0, part.labels["click"], 0).astype(np.int8)}
    assert_same_for_any_team(replace(part, labels=labels, maturity=young), WIDE, (3,), n_shards=3)


def test_a_table_is_judged_with_late_labels_in_shards(table):
    judged = monocal.fit_and_evaluate(table, method="wide_logistic", n_shards=3, **COLUMNS, **LATE)
    assert "of the rows are older than the window" in str(judged.evaluation.late_labels)
    assert judged.model.info["late_labels"]["window"] == 7 * 86_400


def test_a_method_that_needs_all_rows_still_says_so(late):
    with pytest.raises(InvalidInput, match="fit it on one machine"):
        fit_log(late, FitOptions("platt"), n_shards=2)
