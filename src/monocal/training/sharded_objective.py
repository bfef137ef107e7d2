"""The loss of a calibrator's network on rows that a team has in shards."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from monocal.core.batches import iterate_batches
from monocal.core.format import fingerprint
from monocal.core.samples import Samples
from monocal.core.spaces import Floats
from monocal.losses import Loss
from monocal.losses.added_sums import of_added_sums
from monocal.losses.base import BatchPart
from monocal.training.calibration_objective import CalibrationObjective, columns_of, fingerprint_of, tensor_of
from monocal.training.objective import Batch, Objective
from monocal.training.optimisers import sparse_tables
from monocal.training.options import TrainingOptions
from monocal.training.trainable import Trainable


@final
class ShardedObjective(Objective):
    r"""Gradients that are the weighted mean of the shards' own.

    .. math:: g = \frac{\sum_k W_k\, g_k}{\sum_k W_k}

    A batch holds an equal share of the rows of every shard, in an order of the shard's own. Each shard's gradient is
    that of its rows alone, with their weight W; the sums are those of `Shards.add`, so the same shards give the same
    weights of the network whoever computes which. A loss or a penalty that is no mean over rows is differentiated at
    the sums of all shards (`of_added_sums`), so it is that of the whole batch.

    Arguments:
        network: What to train.
        loss: What to minimise.
        rows: This member's rows.
        held_out: Its rows among those whose log-loss decides which weights are kept.
    """

    network: Trainable
    loss: Loss

    def __init__(self, network: Trainable, loss: Loss, rows: Samples, held_out: Samples | None) -> None:
        super().__init__(network, loss)
        self.rows, self.shards, self.held_out = rows, rows.in_shards, held_out
        self.team = self.shards.team
        self.whole = CalibrationObjective(network, loss, rows, held_out)
        self.learned = [weight for weight in network.parameters() if weight.requires_grad]
        long = sparse_tables(network)
        self.tables = [place for place, weight in enumerate(self.learned) if id(weight) in long]

    def columns(self) -> Batch:
        return columns_of(self.rows)

    def fingerprint(self) -> str:
        """Covers the rows of all shards, whoever has them."""
        held_out = self.held_out
        own = [
            fingerprint_of(self.rows.take(part), None if held_out is None else held_out.take(later))
            for (_, part), (_, later) in zip(
                self.shards.parts(), (self.shards if held_out is None else held_out.in_shards).parts(), strict=True
            )
        ]
        digests = [np.frombuffer(bytes.fromhex(digest), dtype=np.float64) for digest in own]
        return fingerprint(self.shards.join(digests).tobytes())

    def n_batches(self, options: TrainingOptions) -> int:
        # shares are whole rows, so that every shard may be through before the rows of all would ask for
        own = [math.ceil((part.stop - part.start) / share) for part, share in self._shares(options)]
        return int(self.shards.most(np.array([max(own)]))[0])

    def _shares(self, options: TrainingOptions) -> list[tuple[slice, int]]:
        """Returns the rows of each own shard and how many of them a batch takes."""
        n_rows = int(self.shards.team.count(np.array([self.rows.n_rows]))[0])
        n_batches = math.ceil(n_rows / options.batch_rows)
        parts = [part for _, part in self.shards.parts()]
        return [(part, max(math.ceil((part.stop - part.start) / n_batches), 1)) for part in parts]

    def batches(self, options: TrainingOptions, epoch: int) -> Iterator[Batch]:
        n_batches, columns = self.n_batches(options), self.columns()
        pieces = []
        for number, (part, share) in zip(self.shards.numbers, self._shares(options), strict=True):
            own = {name: column[part] for name, column in columns.items()}
            # an order of its own for every shard and epoch
            turn = epoch * self.shards.n + number
            seed = options.seed if options.shuffle else None
            pieces.append(iterate_batches(own, share, seed=seed, epoch=turn, with_rows=True))
        nothing = {name: column[:0] for name, column in columns.items()} | {"rows": np.zeros(0, np.int64)}
        for _ in range(n_batches):
            found = [next(piece, nothing) for piece in pieces]
            ends = np.cumsum([len(batch["rows"]) for batch in found])
            yield {name: np.concatenate([batch[name] for batch in found]) for name in nothing} | {"ends": ends}

    def gradients(self, batch: Batch) -> float:
        parts, penalties = self._forward(batch)
        losses, found = [], []
        for part, loss, penalty in zip(parts, self.loss.of_shards(parts, self.shards), penalties, strict=True):
            value, gradients = self._backward(loss + penalty) if len(part.logits) else (0.0, [None] * len(self.learned))
            losses.append(value)
            found.append(gradients)
        tables = {place: self._touched(place, [gradients[place] for gradients in found]) for place in self.tables}
        sums: list[list[Floats | float]] = []
        for own_gradients, value, part in zip(found, losses, parts, strict=True):
            arrays = [
                part.mass * _array(gradient, parameter, tables.get(place))
                for place, (gradient, parameter) in enumerate(zip(own_gradients, self.learned, strict=True))
            ]
            sums.append([*arrays, part.mass * value, part.mass])
        *means, loss_sum, total = self.shards.add(sums)
        for place, (parameter, mean) in enumerate(zip(self.learned, means, strict=True)):
            values = torch.from_numpy(np.asarray(mean / total)).to(parameter.dtype)
            if place in tables:
                rows = torch.from_numpy(tables[place])[None]
                values = torch.sparse_coo_tensor(rows, values, parameter.shape, check_invariants=True)
            parameter.grad = values
        return float(loss_sum / total)

    def _forward(self, batch: Batch) -> tuple[list[BatchPart], list[Tensor]]:
        """Sends every own shard's rows through the network; returns them with their logits, and penalties."""
        shared = self.network.batch_penalty()
        parts, penalties = [], []
        for first, end in pairwise([0, *batch["ends"]]):
            own = {name: column[first:end] for name, column in batch.items()}
            mass = float(own["weights"].sum()) if "weights" in own else float(end - first)
            logits, field_ids = tensor_of(own["logits"]), tensor_of(own["features"]) if "features" in own else None
            weights = tensor_of(own["weights"]) if "weights" in own else None
            if end > first:
                logits = self.network(logits, field_ids)
                penalties.append(self.network.penalty() if shared is None else shared.sums())
            else:
                penalties.append(torch.zeros(() if shared is None else shared.shape, dtype=torch.float64))
            parts.append(BatchPart(logits, tensor_of(own["labels"]), weights, field_ids, mass))
        if shared is not None:
            value, masses = shared.value, [part.mass for part in parts]
            penalties = of_added_sums(lambda sums, _: value(sums), penalties, masses, self.shards)
        return parts, penalties

    def _backward(self, loss: Tensor) -> tuple[float, list[Tensor | None]]:
        self.network.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach()), [parameter.grad for parameter in self.learned]

    def _touched(self, place: int, gradients: list[Tensor | None]) -> NDArray[np.int64]:
        """Returns the rows of a long table that the batch of any member names."""
        marks = np.zeros(len(self.learned[place]))
        for gradient in gradients:
            if gradient is not None:
                marks[gradient.coalesce().indices()[0].numpy()] = 1.0
        return np.flatnonzero(self.shards.team.most(marks))

    def start_epoch(self) -> None:
        self.whole.start_epoch()

    def set_progress(self, share: float) -> None:
        self.whole.set_progress(share)

    def held_out_loss(self) -> float | None:
        return self.whole.held_out_loss()


def _array(gradient: Tensor | None, weight: Tensor, rows: NDArray[np.int64] | None) -> Floats:
    """Returns a gradient as an array; that of a long table for the given rows alone."""
    if rows is None:
        return np.zeros(weight.shape) if gradient is None else gradient.numpy().astype(np.float64)
    values = np.zeros((len(rows), *weight.shape[1:]))
    if gradient is not None:
        gradient = gradient.coalesce()
        values[np.searchsorted(rows, gradient.indices()[0].numpy())] = gradient.values().numpy()
    return values
