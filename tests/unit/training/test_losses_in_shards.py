"""Losses of a batch whose rows lie in shards: those of the whole batch."""

import numpy as np
import pytest
import torch

from monocal.core.samples import Samples
from monocal.core.team import Alone, Shards
from monocal.lab.reconstructions.mcnet_map import McnetMap
from monocal.losses import CrossEntropy, FieldCalibrationLoss, SmoothCalibrationLoss, SquaredError, WeightedSum
from monocal.losses.base import BatchPart
from monocal.neural.network import FieldMap
from monocal.testing.teams import run_team
from monocal.training import TrainingOptions
from monocal.training.calibration_objective import CalibrationObjective
from monocal.training.sharded_objective import ShardedObjective

N_ROWS, N_BATCHES = 512, 12
SHARD = np.random.default_rng(1).integers(0, 3, N_ROWS)  # of four; the last one has no rows

LOSSES = {
    "monocal": lambda: SmoothCalibrationLoss(10, 0.9, "monocal"),
    "paper": lambda: SmoothCalibrationLoss(10, 0.9, "paper"),
    "authors": lambda: SmoothCalibrationLoss(10, 0.9, "authors"),
    "field": lambda: FieldCalibrationLoss([4, 6], 0.9),
    "mse": SquaredError,
    "sum": lambda: WeightedSum([(1.0, CrossEntropy()), (0.5, SmoothCalibrationLoss(10, 0.9))]),
}


def batches(weighted):
    random = np.random.default_rng(2)
    for _ in range(N_BATCHES):
        logits = torch.from_numpy(random.normal(-2.0, 1.0, N_ROWS).round(2))
        labels = torch.from_numpy((random.random(N_ROWS) < 0.2).astype(np.float64))
        weights = torch.from_numpy(random.integers(1, 4, N_ROWS).astype(np.float64)) if weighted else None
        yield logits, labels, weights, torch.from_numpy(random.integers(0, 5, (N_ROWS, 2)))


def whole(loss, weighted):
    for logits, *others in batches(weighted):
        logits.requires_grad_()
        value = loss(logits, *others)
        value.backward()
        yield value.item(), logits.grad.numpy()


def in_shards(team, loss, weighted):
    numbers = tuple(range(team.rank, 4, team.size))
    own = [torch.from_numpy(np.flatnonzero(number == SHARD)) for number in numbers]
    shards = Shards(team, 4, numbers, np.cumsum([0, *map(len, own)]))
    for columns in batches(weighted):
        parts = []
        for rows in own:
            logits, labels, weights, ids = (None if column is None else column[rows] for column in columns)
            mass = float(len(rows) if weights is None else weights.sum())
            parts.append(BatchPart(logits.requires_grad_(), labels, weights, ids, mass))
        total = float(N_ROWS if columns[2] is None else columns[2].sum())
        gradient, value = np.zeros(N_ROWS), 0.0
        for rows, part, found in zip(own, parts, loss.of_shards(parts, shards), strict=True):
            if part.mass:
                found.backward()
                gradient[rows.numpy()] = part.logits.grad.numpy() * part.mass / total
                value += found.item() * part.mass / total
        yield value, gradient


@pytest.mark.parametrize("weighted", [False, True], ids=["rows", "weights"])
@pytest.mark.parametrize("name", LOSSES)
def test_loss_and_gradient_in_shards_are_those_of_the_whole_batch(name, weighted):
    """Over a dozen batches, so that moving averages are part of it; rounding is all that differs."""
    pairs = zip(
        whole(LOSSES[name](), weighted),
        in_shards(Alone(), LOSSES[name](), weighted),
        strict=True,
    )
    for (expected, slope), (found, own_slope) in pairs:
        assert found == pytest.approx(expected, rel=1e-14)
        np.testing.assert_allclose(own_slope, slope, rtol=0.0, atol=1e-14 * np.abs(slope).max())


@pytest.mark.parametrize("name", LOSSES)
def test_members_without_a_row_of_a_batch_take_part_and_all_see_the_same_bits(name):
    """Of four members the last has no row; what each remembers of earlier batches is the same."""

    def work(team):
        loss = LOSSES[name]()
        own = [gradient for _, gradient in in_shards(team, loss, weighted=True)]
        return np.sum(own, axis=0), [buffer.numpy().tobytes() for buffer in loss.buffers()]

    (alone, remembered), *_ = run_team(1, work)
    for size in (2, 4):
        members = run_team(size, work)
        assert all(buffers == remembered for _, buffers in members)
        assert np.array_equal(np.sum([gradient for gradient, _ in members], axis=0), alone)


class Level(torch.nn.Module):
    """A context of one number, ten times the first field's id."""

    def forward(self, field_ids):
        return 10.0 * field_ids[:, :1].to(torch.float32)


def objective(kind, shards=None):
    """A map of which rows with higher scores get less, because their context says so."""
    random = np.random.default_rng(4)
    logits = random.normal(-1.0, 1.0, N_ROWS)
    labels, level = (random.random(N_ROWS) < 0.3).astype(np.float64), (logits > -1.0)[:, None].astype(np.int32)
    curve = McnetMap(1, knots=[-2.0, -1.0, 0.0, 1.0], hidden=(8,), order_weight=3.0, identity_start=False, seed=2)
    network = FieldMap(curve, encoder=Level())
    return kind(network, CrossEntropy(), Samples(logits, labels, level, shards=shards), None)


def test_a_penalty_on_bins_of_a_batch_is_that_of_the_whole_batch():
    edges = np.array([0, 200, 200, 390, N_ROWS])
    whole_batch = objective(CalibrationObjective)
    shards = objective(ShardedObjective, Shards(Alone(), 4, (0, 1, 2, 3), edges))
    options = TrainingOptions(1, N_ROWS, shuffle=False)
    found = []
    for each in (whole_batch, shards):
        each.network.train()
        found.append(each.gradients(next(each.batches(options, 0))))
        assert each.network.penalty() > 0.01
    assert found[1] == pytest.approx(found[0], rel=1e-12)
    pairs = zip(whole_batch.network.parameters(), shards.network.parameters(), strict=True)
    for expected, own in pairs:
        np.testing.assert_allclose(own.grad, expected.grad, rtol=1e-5, atol=1e-7)
