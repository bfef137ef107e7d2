"""One law of fits by several processes: any number of members gives the same bits for the same partition of the rows.

Members are threads here; torchrun's processes pass the same law in tests/cluster.
"""

from dataclasses import replace

import numpy as np
import pytest

from monocal.calibrators import CALIBRATORS, calibrator
from monocal.core.dataset import ChosenIds, Dataset
from monocal.core.errors import InvalidInput
from monocal.core.reduce import DEALT_ROWS, LOCAL, Partition
from monocal.core.scores import cut_soft
from monocal.lab.simulator import delay_labels, simulate_log
from monocal.lab.thread_reducer import run_members
from monocal.models.fit import fit_log
from monocal.tables.roles import Roles
from monocal.tables.table import Table

LOG = simulate_log(30_000, seed=5)
RANDOM = np.random.default_rng(0)
IDS = np.column_stack([LOG.features[:, :2], RANDOM.integers(0, 2 + 3 * 2048 + 1, LOG.n_rows)]).astype(np.int32)
KNOTS = (0, 0, 4)
SOFT = np.clip(0.7 * LOG.labels + 0.3 * RANDOM.random(LOG.n_rows), 0.0, 1.0)
WEIGHTS = RANDOM.integers(0, 3, LOG.n_rows).astype(np.float64)

CARRIED = {"l2": "auto", "carry": "auto", "recent_share": 0.2}
FITS = {
    "plain": ("wide_logistic", {}),
    "learned penalties": ("wide_logistic", {"l2": "auto"}),
    "carried": ("wide_logistic", CARRIED),
    "given shares": ("wide_logistic", {"carry": {0: 0.5}}),
    "curve": ("wide_logistic", {**CARRIED, "base": "curve"}),
    "guard and recent share": ("wide_logistic", {"guard": True, "recent_share": 0.2}),
    "network": ("umc", {"size": "small", "n_epochs": 1, "curve_rows": 6_000}),
    "network without carry-over": ("sbcr", {"n_epochs": 1, "carry": "none", "hidden": (8,)}),
}
ROWS = {
    "plain": {},
    "times": {"times": True},
    "weights and times": {"weights": True, "times": True},
    "soft labels": {"soft": True},
    "numbers": {"knots": KNOTS},
}


def dataset(member, n_parts, *, times=False, weights=False, soft=False, **_):
    pieces = cut_soft((SOFT if soft else LOG.labels)[:, None].astype(np.float64))
    own, partition = Partition.of_log(len(pieces.rows), n_parts, member)
    rows = pieces.rows[own]
    return Dataset.of(
        LOG.scores[rows],
        pieces.labels[own, 0],
        features=ChosenIds.of(IDS, rows),
        weights=WEIGHTS[rows] if weights else pieces.shares[own] if soft else None,
        times=LOG.times[rows] if times else None,
        partition=partition,
    )


def bits(one):
    state = one.state()
    return {name: array.tobytes() for name, array in state.arrays.items()}, state.values


def fitted(member, fit, rows, n_parts=4):
    method, arguments = FITS[fit]
    return bits(
        calibrator(method, **arguments).fit_data(dataset(member, n_parts, **ROWS[rows]), ROWS[rows].get("knots"))
    )


ASKED = [
    *((fit, "weights and times") for fit in FITS),
    *(("carried", rows) for rows in ROWS),
    ("plain", "soft labels"),
    ("network", "numbers"),
]


@pytest.mark.parametrize(("fit", "rows"), sorted(set(ASKED)))
def test_any_number_of_members_gives_the_same_bits(fit, rows):
    alone = fitted(LOCAL, fit, rows)
    for size in (2, 3):
        for member in run_members(size, lambda member: fitted(member, fit, rows)):
            assert member == alone


@pytest.mark.parametrize("method", ["wide_logistic", "umc"])
def test_so_it_is_for_labels_that_may_still_come(method):
    arguments = CARRIED if method == "wide_logistic" else {"size": "small", "n_epochs": 1, "curve_rows": 4_000}
    roles = Roles(score="pctr", label="click", fields=["ad_id", "device"], event_time="timestamp",
                     label_time="label_time", window=str(7 * 86_400))  # fmt: skip
    late = Table.read(delay_labels(simulate_log(12_000, seed=0).table()), roles).in_time_order().encoded()
    # the last member has none but negatives that say nothing yet
    late = replace(late, maturity=np.where(np.arange(12_000) < 2 * DEALT_ROWS, late.maturity, 0.0))

    def fit(member):
        model = fit_log(late, calibrator(method, **arguments), team=member, n_shards=3)
        return bits(model.tasks[0].calibrator)

    alone = fit(LOCAL)
    assert run_members(3, fit) == [alone] * 3


def test_parts_differ_from_a_plain_fit_by_rounding_alone():
    for fit, tolerance in (("plain", 1e-9), ("carried", 1e-3)):
        method, arguments = FITS[fit]
        plain, found = (
            calibrator(method, **arguments).fit_data(dataset(LOCAL, n, **ROWS["weights and times"])) for n in (1, 3)
        )
        np.testing.assert_allclose(found.shifts_, plain.shifts_, rtol=0, atol=tolerance)
        assert (found.slope_, found.intercept_) == pytest.approx((plain.slope_, plain.intercept_), abs=tolerance)


def test_a_member_without_rows_takes_part():
    few = DEALT_ROWS - 100

    def fit(member):
        rows, partition = Partition.of_log(few, 2, member)
        data = Dataset.of(LOG.scores[rows], LOG.labels[rows], features=IDS[rows, :2], partition=partition)
        return len(rows), bits(calibrator("wide_logistic").fit_data(data))

    (_, alone), members = fit(LOCAL), run_members(2, fit)
    assert members == [(few, alone), (0, alone)]


def test_a_member_may_see_one_class_but_not_all_of_them():
    def fit(member, labels):
        rows, partition = Partition.of_log(LOG.n_rows, 2, member)
        return calibrator("wide_logistic").fit_data(
            Dataset.of(LOG.scores[rows], labels[rows], features=IDS[rows, :2], partition=partition)
        )

    assert len(run_members(2, lambda member: fit(member, np.sort(LOG.labels)))) == 2
    with pytest.raises(InvalidInput, match="only 0s"):
        run_members(2, lambda member: fit(member, np.zeros(LOG.n_rows)))


@pytest.mark.parametrize("method", CALIBRATORS)
def test_methods_that_need_all_rows_say_so(method):
    one = calibrator(method)
    if not one.fits_in_parts:
        partition = Partition(LOCAL, 2, (0, 1), np.array([0, 1, 2]))
        with pytest.raises(InvalidInput, match="fit it on one machine"):
            one.fit_data(Dataset.of([0.1, 0.2], [0, 1], features=[[1], [2]], partition=partition))


def test_parts_that_cannot_be_compared_in_time_are_refused_where_time_matters():
    partition = Partition(LOCAL, 2, (0, 1), np.array([0, 10_000, LOG.n_rows]))
    data = Dataset.of(LOG.scores, LOG.labels, features=IDS[:, :2], partition=partition)
    calibrator("wide_logistic").fit_data(data)
    with pytest.raises(InvalidInput, match="a column that orders rows by time"):
        calibrator("wide_logistic", carry="auto").fit_data(data)


def test_an_evaluation_of_a_wide_fit_moves_one_number_per_shift(monkeypatch):
    """Beside slope, intercept and loss, and the two scales of integers; nothing grows with the rows."""
    monkeypatch.setattr("monocal.wide.intervals.MOST_ROWS", 2_000)

    def fit(member, n_rows):
        own = np.arange(n_rows).reshape(10, -1)[member.rank]
        partition = Partition(member, 10, (member.rank,), np.array([0, len(own)]))
        data = Dataset.of(LOG.scores[own], LOG.labels[own], features=IDS[own, :2] % 50, partition=partition)
        calibrator("wide_logistic", max_iterations=3).fit_data(data)
        return member.n_bytes / member.n_reductions

    few, many = (set(run_members(10, lambda member, n=n: fit(member, n))) for n in (10_000, 30_000))
    assert len(few) == len(many) == 1
    assert max(few | many) < 8 * 600
