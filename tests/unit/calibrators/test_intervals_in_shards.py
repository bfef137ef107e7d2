"""What row intervals need, measured by a team."""

import numpy as np
import pytest

from monocal.calibrators import calibrator
from monocal.calibrators.statistical import row_variance
from monocal.core.samples import Samples
from monocal.core.spaces import to_logits
from monocal.core.team import Alone, Shards
from monocal.lab.simulator import simulate_log
from monocal.models.fit import FitOptions, fit_log
from monocal.tables.roles import Roles
from monocal.tables.table import Table
from monocal.tables.vocabulary import Vocabulary
from monocal.testing.teams import run_team

LOG = simulate_log(24_000, seed=3, world="drifting").table()
SCORES, LABELS, TIMES = (LOG[name].to_numpy() for name in ("pctr", "click", "timestamp"))
FEATURES = Vocabulary.of_table(LOG, ["store_id", "category"]).encode(LOG)
WEIGHTS = np.random.default_rng(0).integers(0, 3, len(SCORES)).astype(np.float64)
BLOCK = 50
PLAIN, CARRIED = {"l2": "auto"}, {"l2": "auto", "carry": "auto"}


def fitted(team, n, arguments, *, of=slice(None), ordered=True):
    """Fits the rows of a member, dealt in blocks."""
    rows = np.arange(len(SCORES))[of]
    shard = rows // BLOCK % n
    numbers = tuple(range(team.rank, n, team.size))
    own = [rows[shard == number] for number in numbers]
    mine = np.concatenate(own)
    shards = Shards(team, n, numbers, np.cumsum([0, *map(len, own)]), mine if ordered else None)
    given = {"features": FEATURES[mine], "weights": WEIGHTS[mine], "times": TIMES[mine] if ordered else None}
    return calibrator("wide_logistic", **arguments).fit(SCORES[mine], LABELS[mine], shards=shards, **given)


def spread(one):
    return {name: column.tobytes() for name, column in one.spread_.items()}


def known(one):
    return one.known_logits(Samples(to_logits(SCORES, "probability"), features=FEATURES)).variances


@pytest.mark.parametrize(
    ("arguments", "ordered"), [(PLAIN, False), (PLAIN, True), (CARRIED, True)], ids=["places", "rows", "carried"]
)
def test_the_same_shards_miss_the_same_to_the_bit_for_any_team(arguments, ordered):
    alone = spread(fitted(Alone(), 4, arguments, ordered=ordered))
    assert any(np.frombuffer(value)[0] > 0.0 for name, value in alone.items() if name != "centre")
    for size in (2, 4):
        team = run_team(size, lambda team: spread(fitted(team, 4, arguments, ordered=ordered)))
        assert team == [alone] * size


def test_more_rows_than_are_looked_at_are_the_newest_of_every_shard(monkeypatch):
    monkeypatch.setattr(row_variance, "MOST_ROWS", 4_000)
    alone = spread(fitted(Alone(), 4, PLAIN))
    assert run_team(2, lambda team: spread(fitted(team, 4, PLAIN))) == [alone] * 2
    monkeypatch.undo()
    assert alone != spread(fitted(Alone(), 4, PLAIN))


@pytest.mark.parametrize(("arguments", "rtol"), [(PLAIN, 1e-9), (CARRIED, 1e-4)], ids=["plain", "carried"])
def test_variances_of_rows_are_those_of_one_machine(arguments, rtol):
    """Rows come together in the order of one machine: 1e-13 here, and as near as effects and shares elsewhere."""
    given = {"features": FEATURES, "weights": WEIGHTS, "times": TIMES}
    plain = calibrator("wide_logistic", **arguments).fit(SCORES, LABELS, **given)
    np.testing.assert_allclose(known(fitted(Alone(), 3, arguments)), known(plain), rtol=rtol)


def test_a_model_that_a_team_fitted_answers_with_intervals():
    roles = Roles.of(score="pctr", label="click", fields=["store_id"], time="timestamp")
    log, asked = Table.read(LOG, roles).in_time_order().encoded(), FitOptions("wide_logistic", CARRIED)
    team = run_team(2, lambda team: fit_log(log, asked, team=team).predict(LOG, interval=0.9))
    plain = fit_log(log, asked).predict(LOG, interval=0.9)
    for found in team:
        assert (found.lower < found.probabilities).all()
        np.testing.assert_allclose(found.lower, plain.lower, rtol=1e-4)
        np.testing.assert_allclose(found.upper, plain.upper, rtol=1e-4)


def test_without_row_numbers_places_within_shards_stand_for_time():
    """Blocks of time are cut at places of each shard, which are nearly the same moments: 2 % here."""
    ordered, placed = (known(fitted(Alone(), 4, PLAIN, ordered=ordered)) for ordered in (True, False))
    np.testing.assert_allclose(placed, ordered, rtol=0.1)


def test_a_member_without_rows_hears_what_the_others_miss():
    few = slice(0, BLOCK)
    alone = spread(fitted(Alone(), 2, PLAIN, of=few))
    assert run_team(2, lambda team: spread(fitted(team, 2, PLAIN, of=few))) == [alone] * 2


def test_rows_of_which_none_is_older_show_nothing_of_time():
    """A table without a time column comes ordered by its contents, which must not be taken for time."""
    order = np.lexsort((SCORES, LABELS))
    n_rows = len(order)

    def of_time(moments):
        shards = Shards(Alone(), 2, (0, 1), np.array([0, n_rows // 2, n_rows]), moments)
        one = calibrator("wide_logistic").fit(SCORES[order], LABELS[order], features=FEATURES[order], shards=shards)
        return float(one.spread_["of_time"][0])

    assert of_time(np.zeros(n_rows, np.int64)) < 0.05
    assert of_time(np.arange(n_rows)) > 1.0
