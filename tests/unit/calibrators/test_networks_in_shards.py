"""Neural fits that a team does together."""

import numpy as np
import pytest

from monocal.calibrators import calibrator
from monocal.core.errors import InvalidInput
from monocal.core.log_loss import log_loss
from monocal.core.spaces import logit
from monocal.core.team import Alone, Shards
from monocal.lab.simulator import simulate_log
from monocal.testing.teams import run_team
from monocal.vocabulary.vocabulary import Vocabulary

LOG = simulate_log(8_000, seed=5).table()
SCORES, LABELS, TIMES = (LOG[name].to_numpy() for name in ("pctr", "click", "timestamp"))
FEATURES = Vocabulary.of_table(LOG, ["site_id", "device"]).encode(LOG)
N_FIT, BLOCK = 6_000, 20
SMALL = {"size": "small", "n_dimensions": 4}


@pytest.fixture(autouse=True)
def one_thread():
    """Members that are threads would change each other's number of threads."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def fitted(team, n, method="umc", **arguments):
    shard = np.arange(N_FIT) // BLOCK % n
    numbers = tuple(range(team.rank, n, team.size))
    own = [np.flatnonzero(shard == number) for number in numbers]
    rows = np.concatenate(own)
    shards = Shards(team, n, numbers, np.cumsum([0, *map(len, own)]), rows)
    one = calibrator(method, n_epochs=1, **arguments)
    return one.fit(SCORES[rows], LABELS[rows], features=FEATURES[rows], times=TIMES[rows], shards=shards)


def bits(one):
    state = one.state()
    return {name: array.tobytes() for name, array in state.arrays.items()}, state.values


@pytest.mark.parametrize(
    ("method", "arguments", "sizes"),
    [
        ("umc", SMALL, (2, 4)),
        ("umc", SMALL | {"carry": "none", "guard": True}, (2,)),
        ("sbcr", {"hidden": (16,)}, (2,)),
        ("fac", {"carry": "none"}, (2,)),
        ("mcnet", {"hidden": (16,)}, (2,)),
        ("umc", SMALL | {"sc_weight": 1.0}, (2, 4)),
        ("umc", SMALL | {"sc_weight": 1.0, "sc_preset": "paper", "carry": "none"}, (2,)),
        ("umc", SMALL | {"sc_weight": 0.01, "sc_preset": "authors", "carry": "none"}, (2,)),
        ("umc", SMALL | {"sc_weight": 1.0, "auxiliary": "field", "carry": "none"}, (2,)),
    ],
    ids=["umc", "umc believing", "sbcr", "fac", "mcnet", "sc", "sc paper", "sc authors", "field"],
)
def test_the_same_shards_give_the_same_bits_for_any_team(method, arguments, sizes):
    alone = bits(fitted(Alone(), 4, method, **arguments))
    for size in sizes:
        for member in run_team(size, lambda team: bits(fitted(team, 4, method, **arguments))):
            assert member == alone


def test_one_shard_is_the_fit_without_shards_to_the_bit():
    given = {"features": FEATURES[:N_FIT], "times": TIMES[:N_FIT]}
    plain = calibrator("umc", n_epochs=1, **SMALL).fit(SCORES[:N_FIT], LABELS[:N_FIT], **given)
    assert bits(fitted(Alone(), 1, **SMALL)) == bits(plain)


def test_four_shards_are_worth_as_much_as_one():
    later = {"features": FEATURES[N_FIT:]}
    losses = [
        log_loss(logit(network.predict(SCORES[N_FIT:], **later)), LABELS[N_FIT:])
        for network in (fitted(Alone(), n, seed=seed, carry="none", **SMALL) for n in (1, 4) for seed in (0, 1))
    ]
    raw = log_loss(logit(SCORES[N_FIT:]), LABELS[N_FIT:])
    assert max(losses) < raw
    assert abs(np.mean(losses[:2]) - np.mean(losses[2:])) < 0.2 * (raw - np.mean(losses))


def test_long_tables_have_the_same_bits_for_any_team(monkeypatch):
    monkeypatch.setattr("monocal.calibrators.neural.fitting.encoders.SPARSE_FROM_NUMBERS", 10)
    alone = bits(fitted(Alone(), 3, carry="none", **SMALL))
    assert run_team(2, lambda team: bits(fitted(team, 3, carry="none", **SMALL))) == [alone] * 2


def test_an_auxiliary_loss_is_part_of_the_objective():
    """Its averages are over all shards; a fit without it has other weights."""
    plain, smooth = (fitted(Alone(), 4, carry="none", sc_weight=weight, **SMALL) for weight in (0.0, 1.0))
    assert bits(plain) != bits(smooth)


def test_many_shards_of_few_rows_leave_no_batch_empty():
    """Of 60 rows in each of 100 shards, three per batch make 20 batches and not the 22 of 6,000 rows in 256s."""
    network = fitted(Alone(), 100, carry="none", held_out_share=0.0, **SMALL)
    assert np.isfinite(network.predict(SCORES, features=FEATURES)).all()
    assert network.history_["n_steps"] == 20


def test_a_checkpoint_is_refused():
    with pytest.raises(InvalidInput, match="checkpoint: got a folder; wanted none for a fit in shards"):
        fitted(Alone(), 2, checkpoint="folder")
