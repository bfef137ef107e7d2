"""Neural fits that a team does together."""

import sys
from collections import Counter

import numpy as np
import pytest

from monocal.calibrators import calibrator
from monocal.core.chosen_ids import ChosenIds
from monocal.core.errors import ArtefactError
from monocal.core.log_loss import log_loss
from monocal.core.spaces import logit
from monocal.core.team import Alone, Shards
from monocal.lab.simulator import simulate_log
from monocal.tables.vocabulary import Vocabulary
from monocal.testing.teams import run_team
from monocal.training.sharded_objective import ShardedObjective

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


def fitted(team, n, method="umc", features=FEATURES.__getitem__, **arguments):
    shard = np.arange(N_FIT) // BLOCK % n
    numbers = tuple(range(team.rank, n, team.size))
    own = [np.flatnonzero(shard == number) for number in numbers]
    rows = np.concatenate(own)
    shards = Shards(team, n, numbers, np.cumsum([0, *map(len, own)]), rows)
    one = calibrator(method, **{"n_epochs": 1, **arguments})
    return one.fit(SCORES[rows], LABELS[rows], features=features(rows), times=TIMES[rows], shards=shards)


def bits(one):
    state = one.state()
    return {name: array.tobytes() for name, array in state.arrays.items()}, state.values


every_method = pytest.mark.parametrize(
    ("method", "arguments", "sizes"),
    [
        ("umc", SMALL, (2, 4)),
        ("umc", SMALL | {"carry": "none", "guard": True}, (2,)),
        ("sbcr", {"hidden": (16,)}, (2,)),
        ("fac", {"carry": "none"}, (2,)),
        ("mcnet", {"hidden": (16,)}, (2,)),
        ("desc", {"hidden": (16,), "n_dimensions": 4}, (2, 4)),
        ("umc", SMALL | {"sc_weight": 1.0}, (2, 4)),
        ("umc", SMALL | {"sc_weight": 1.0, "sc_preset": "paper", "carry": "none"}, (2,)),
        ("umc", SMALL | {"sc_weight": 0.01, "sc_preset": "authors", "carry": "none"}, (2,)),
        ("umc", SMALL | {"sc_weight": 1.0, "auxiliary": "field", "carry": "none"}, (2,)),
    ],
    ids=["umc", "umc believing", "sbcr", "fac", "mcnet", "desc", "sc", "sc paper", "sc authors", "field"],
)


@every_method
def test_the_same_shards_give_the_same_bits_for_any_team(method, arguments, sizes):
    alone = bits(fitted(Alone(), 4, method, **arguments))
    for size in sizes:
        for member in run_team(size, lambda team: bits(fitted(team, 4, method, **arguments))):
            assert member == alone


@every_method
def test_ids_that_are_read_from_a_log_give_the_bits_of_ids_in_memory(method, arguments, sizes, tmp_path):
    np.save(tmp_path / "ids.npy", FEATURES)
    log = np.load(tmp_path / "ids.npy", mmap_mode="r")
    arguments = arguments | {"checkpoint": tmp_path / "run"}  # whose mark is made from the ids, too
    held = bits(fitted(Alone(), 3, method, **arguments))
    assert bits(fitted(Alone(), 3, method, features=lambda rows: ChosenIds(log, rows), **arguments)) == held


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("umc", SMALL),
        ("umc", SMALL | {"sc_weight": 1.0}),
        ("mcnet", {"hidden": (16,)}),
        ("desc", {"hidden": (16,), "n_dimensions": 4}),
    ],
    ids=["umc", "sc", "mcnet", "desc"],
)
def test_one_shard_is_the_fit_without_shards_to_the_bit(method, arguments):
    given = {"features": FEATURES[:N_FIT], "times": TIMES[:N_FIT]}
    plain = calibrator(method, n_epochs=1, **arguments).fit(SCORES[:N_FIT], LABELS[:N_FIT], **given)
    assert bits(fitted(Alone(), 1, method, **arguments)) == bits(plain)


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
    monkeypatch.setattr("monocal.neural.fitting.encoders.SPARSE_FROM_NUMBERS", 10)
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


class Lost(Exception):
    """What happens to a member in the middle of a training."""


@pytest.fixture
def lost_after(monkeypatch):
    """Lets every member fail after some steps, and returns how many each took."""

    plain = ShardedObjective.gradients

    def steps(n_steps):
        taken = Counter()

        def gradients(self, batch):
            if n_steps is not None and taken[self.team.rank] == n_steps:
                raise Lost
            taken[self.team.rank] += 1
            return plain(self, batch)

        monkeypatch.setattr(ShardedObjective, "gradients", gradients)
        return taken

    return steps


CHECKPOINTED = SMALL | {"carry": "none", "n_epochs": 3, "sc_weight": 1.0}


@pytest.mark.parametrize("size", [1, 4])
def test_a_fit_that_a_team_lost_goes_on_from_its_checkpoint_to_the_same_bits(tmp_path, lost_after, size):
    """Also by another team: shards belong to the rows."""
    given = CHECKPOINTED | {"checkpoint": str(tmp_path / "run")}
    taken = lost_after(None)
    undisturbed = bits(fitted(Alone(), 4, **CHECKPOINTED))
    n_steps = taken[0]
    lost_after(n_steps - 1)
    with pytest.raises(Lost):
        run_team(2, lambda team: fitted(team, 4, **given))
    assert (tmp_path / "run" / "checkpoint.json").is_file()
    taken = lost_after(None)
    found = run_team(size, lambda team: bits(fitted(team, 4, **given)))
    assert found == [undisturbed] * size
    assert taken[0] == n_steps // 3  # the last of three epochs
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_of_other_rows_of_any_shard_is_refused(tmp_path, lost_after, monkeypatch):
    given = CHECKPOINTED | {"checkpoint": str(tmp_path / "run")}
    lost_after(30)
    with pytest.raises(Lost):
        fitted(Alone(), 4, **given)
    lost_after(None)
    labels = LABELS.copy()
    labels[N_FIT - 1] = 1 - labels[N_FIT - 1]  # held out, in the last shard
    monkeypatch.setattr(sys.modules[__name__], "LABELS", labels)
    with pytest.raises(ArtefactError, match="belongs to other rows"):
        run_team(2, lambda team: fitted(team, 4, **given))


@pytest.mark.parametrize("n", [1, 4], ids=["one shard", "four"])
def test_curve_rows_beyond_all_rows_change_no_bit(n):
    assert bits(fitted(Alone(), n, curve_rows=N_FIT, **SMALL)) == bits(fitted(Alone(), n, **SMALL))


def test_curve_rows_have_the_same_bits_for_any_team():
    alone = bits(fitted(Alone(), 4, curve_rows=2_000, **SMALL))
    for size in (2, 4):
        assert run_team(size, lambda team: bits(fitted(team, 4, curve_rows=2_000, **SMALL))) == [alone] * size
