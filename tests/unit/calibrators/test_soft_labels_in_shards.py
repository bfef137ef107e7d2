"""Soft labels, fitted by a team."""

import numpy as np
import pytest

from monocal.calibrators import calibrator
from monocal.core.errors import InvalidInput
from monocal.core.team import Alone, Shards
from monocal.lab.simulator import simulate_log
from monocal.tables.vocabulary import Vocabulary
from monocal.testing.teams import run_team

N_ROWS, BLOCK = 8_000, 25
LOG = simulate_log(N_ROWS, seed=5)
TABLE = LOG.table()
SCORES, TIMES = (TABLE[name].to_numpy() for name in ("pctr", "timestamp"))
FEATURES = Vocabulary.of_table(TABLE, ["site_id", "device"]).encode(TABLE)
HARD = TABLE["click"].to_numpy().astype(np.float64)
SOFT = np.where(np.arange(N_ROWS) % 3 == 0, HARD, np.random.default_rng(1).binomial(5, LOG.true_probabilities) / 5)
WEIGHTS = np.random.default_rng(0).integers(0, 3, N_ROWS).astype(np.float64)

WIDE = ("wide_logistic", {"l2": "auto"})
CARRIED = ("wide_logistic", {"carry": "auto", "recent_share": 0.2})
NETWORK = ("umc", {"size": "small", "n_dimensions": 4, "n_epochs": 1})


def fitted(team, n, method, labels=SOFT, *, of=slice(None), weights=WEIGHTS, soft_labels=True):
    rows = np.arange(N_ROWS)[of]
    shard = rows // BLOCK % n
    numbers = tuple(range(team.rank, n, team.size))
    own = [rows[shard == number] for number in numbers]
    mine = np.concatenate(own)
    shards = Shards(team, n, numbers, np.cumsum([0, *map(len, own)]), mine)
    columns = {"features": FEATURES[mine], "weights": None if weights is None else weights[mine], "times": TIMES[mine]}
    name, arguments = method
    one = calibrator(name, **arguments)
    return one.fit(SCORES[mine], labels[mine], shards=shards, soft_labels=soft_labels, **columns)


def bits(one):
    state = one.state()
    return {name: array.tobytes() for name, array in state.arrays.items()}, state.values


def assert_same_for_any_team(method, sizes, **others):
    alone = bits(fitted(Alone(), 4, method, **others))
    for size in sizes:
        assert run_team(size, lambda team: bits(fitted(team, 4, method, **others))) == [alone] * size


@pytest.fixture
def one_thread():
    """Members that are threads would change each other's number of threads."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("method", [WIDE, CARRIED], ids=["plain", "carried"])
@pytest.mark.parametrize("weights", [WEIGHTS, None], ids=["weights", "ones"])
def test_the_same_shards_give_the_same_bits_for_any_team(method, weights):
    assert_same_for_any_team(method, (2, 4), weights=weights)


@pytest.mark.usefixtures("one_thread")
def test_so_do_those_of_a_network():
    assert_same_for_any_team(NETWORK, (2,))


@pytest.mark.parametrize(("method", "atol"), [(WIDE, 1e-9), (CARRIED, 1e-4)], ids=["plain", "carried"])
def test_shards_of_soft_labels_are_fitted_as_on_one_machine(method, atol):
    """As near as hard labels are, 1e-14 here; on one machine a cut in time may fall between two pieces of a row."""
    name, arguments = method
    given = {"features": FEATURES, "weights": WEIGHTS, "times": TIMES, "soft_labels": True}
    plain = calibrator(name, **arguments).fit(SCORES, SOFT, **given)
    np.testing.assert_allclose(fitted(Alone(), 3, method).shifts_, plain.shifts_, atol=atol)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("method", [WIDE, NETWORK], ids=["wide_logistic", "umc"])
def test_zeros_and_ones_have_the_same_bits_with_the_option_as_without(method):
    found, hard = (fitted(Alone(), 4, method, HARD, weights=None, soft_labels=soft) for soft in (True, False))
    assert bits(found) == bits(hard)


@pytest.mark.usefixtures("one_thread")
def test_one_member_may_have_all_soft_labels():
    """Rows of another, which are whole, have the bits that they have in one process."""
    of_first = np.where(np.arange(N_ROWS) // BLOCK % 4 == 0, SOFT, HARD)
    assert_same_for_any_team(WIDE, (4,), labels=of_first, weights=None)
    assert_same_for_any_team(NETWORK, (4,), labels=of_first, weights=None)


def test_a_member_without_rows_takes_part():
    few = slice(0, BLOCK)
    for weights in (WEIGHTS, None):
        alone = bits(fitted(Alone(), 2, WIDE, of=few, weights=weights))
        assert run_team(2, lambda team, own=weights: bits(fitted(team, 2, WIDE, of=few, weights=own))) == [alone] * 2


def test_so_does_one_whose_rows_all_have_no_weight():
    unweighted = np.where(np.arange(N_ROWS) // BLOCK % 4 == 1, 0.0, 1.0)
    assert_same_for_any_team(WIDE, (4,), weights=unweighted)
    assert_same_for_any_team(WIDE, (4,), labels=HARD, weights=unweighted, soft_labels=False)
    with pytest.raises(InvalidInput, match="among rows with positive weight"):
        run_team(2, lambda team: fitted(team, 2, WIDE, weights=np.zeros(N_ROWS)))


def test_a_label_beyond_one_is_refused_by_its_member():
    labels = SOFT.copy()
    labels[BLOCK + 3] = 1.5  # the fourth row of the second shard
    with pytest.raises(InvalidInput, match=r"1\.5 at row 3"):
        run_team(2, lambda team: fitted(team, 2, WIDE, labels))
