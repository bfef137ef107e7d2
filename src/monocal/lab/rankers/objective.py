"""Training a ranker in row order: its loss on an encoded log, chunk by chunk, in threads that change no result."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from monocal.core.fields import Ids
from monocal.core.process import progress
from monocal.lab.prepare.encoded_log import MISSING_LABEL, EncodedLog
from monocal.lab.rankers.lazy_table import LazyAdam
from monocal.lab.rankers.lists import Lists, batches_of, order_by_list
from monocal.lab.rankers.networks import RankerNetwork
from monocal.lab.ranking_losses import RankingLoss
from monocal.neural.batches import batches_in_order
from monocal.neural.train import Adam, Batch, diverged, torch_threads

CHUNK_ROWS = 2_048
"""Rows that go through a network at a time: their activations stay in the cache, their products are large enough."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class Workers:
    """A few threads that share items of work; see `workers`."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool

    def map(self, job: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Returns `job(item)` of every item, in the order of the items."""
        return list(self._pool.map(job, items))


@contextmanager
def workers(n_threads: int) -> Iterator[Workers]:
    """Yields threads each of which multiplies matrices on its own.

    Torch is set to one thread meanwhile, so what an item computes does not depend on how many threads there are; and
    threads do not wait for each other inside every product, which matters on a machine that is busy.

    Example:
        >>> with workers(2) as pool:
        ...     pool.map(lambda number: number * number, [1, 2, 3])
        [1, 4, 9]
    """
    # the number of threads of a matrix product belongs to the thread that asks for it
    with torch_threads(1), ThreadPoolExecutor(n_threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        yield Workers(pool)


def chunks(n_rows: int) -> list[slice]:
    """Returns consecutive ranges of at most `CHUNK_ROWS` rows.

    Example:
        >>> chunks(5000)
        [slice(0, 2048, None), slice(2048, 4096, None), slice(4096, 5000, None)]
    """
    return [slice(start, min(start + CHUNK_ROWS, n_rows)) for start in range(0, n_rows, CHUNK_ROWS)]


@final
class RankerObjective:
    """The sum over tasks of a loss on the rows where the task was observed, plus an L2 penalty.

    The penalty is `l2` times the sum of squares of weight matrices, heads and the batch's table rows, without biases.
    It moves the weights but is not part of the reported loss.

    Rows pass the network in chunks that are shared by threads. The loss sees the whole batch at once, so lists may be
    cut by chunks; its gradients go back chunk by chunk and are added up in order, so the result does not depend on
    the number of threads.

    Arguments:
        network: What to train.
        loss: What to minimise, task by task.
        log: The rows to learn from.
        tasks: The network has as many logits for each as the loss wants.
        l2: Strength of the penalty.
        pool: Threads that share the chunks.
        title: What the progress bar says.
        lists: Number of each row's list, for a loss that compares rows; they come whole, see `order_by_list`.
        references: Task to what is known of each row beforehand, for a loss that asks for it.
        inputs: Gives the integers that the network reads of some rows of the log; None means their field ids.
    """

    def __init__(
        self,
        network: RankerNetwork,
        loss: RankingLoss,
        log: EncodedLog,
        tasks: Sequence[str],
        l2: float,
        pool: Workers,
        title: str,
        lists: Lists | None = None,
        references: Mapping[str, NDArray[Any]] | None = None,
        inputs: Callable[[EncodedLog, Any], Ids] | None = None,
    ) -> None:
        self.network, self.loss = network, loss
        self.lists, self.references, self.inputs = lists, dict(references or {}), inputs
        self.log, self.tasks, self.l2, self.pool, self.title = log, tuple(tasks), l2, pool, title

    def columns(self) -> Batch:
        """Returns the columns by name: arrays or memory maps with one entry per row."""
        optional = {"weights": self.log.weights, "groups": self.lists}
        return {
            "features": self.log.features,
            **{f"label:{task}": self.log.labels[task] for task in self.tasks},
            **{f"reference:{task}": column for task, column in self.references.items()},
            **{name: column for name, column in optional.items() if column is not None},
        }

    def batches(self, batch_rows: int) -> Iterator[Batch]:
        """Yields every row once, with its row number under `rows`; lists come whole."""
        if self.lists is None:
            return batches_in_order(self.columns(), batch_rows)
        return batches_of(self.columns(), *self._order(batch_rows))

    @lru_cache(maxsize=1)  # noqa: B019  # lives as long as one training
    def _order(self, batch_rows: int) -> tuple[NDArray[np.int64], list[int]]:
        assert self.lists is not None
        return order_by_list(self.lists, batch_rows)

    def gradients(self, batch: Batch) -> float:
        """Writes the gradients of a batch into the weights and returns its loss, the number that is reported."""
        network = self.network
        network.zero_grad(set_to_none=True)
        features = torch.tensor(self._read(batch))
        places = network.table.touch(network.places(features))
        vectors = torch.nn.functional.embedding(places, network.table.values)
        shared_rows, shared = network.prepare(places, features)
        shared_leaf = [] if shared is None else [shared.detach().requires_grad_()]
        parts = chunks(len(places))
        leaves = [vectors.detach()[part].requires_grad_() for part in parts]

        def go_forward(place: int) -> Tensor:
            rows = () if shared_rows is None else (shared_rows[parts[place]],)
            logits: Tensor = network(leaves[place], *rows, *shared_leaf)
            return logits

        outputs = self.pool.map(go_forward, range(len(parts)))
        logits = torch.cat([output.detach() for output in outputs]).double().requires_grad_()
        loss = self._loss(logits, batch)
        (logit_gradients,) = torch.autograd.grad(loss, logits)
        weights = network.dense_parameters()

        def go_back(place: int) -> tuple[Tensor, ...]:
            upper = logit_gradients[parts[place]].to(outputs[place].dtype)
            return torch.autograd.grad(outputs[place], [leaves[place], *weights, *shared_leaf], upper)

        by_chunk = self.pool.map(go_back, range(len(parts)))
        totals = [_add_up(gradients) for gradients in zip(*(found[1:] for found in by_chunk), strict=True)]
        for weight, gradient in zip(weights, totals, strict=False):
            weight.grad = gradient
        roots = [vectors] if shared is None else [vectors, shared]
        vector_gradients = torch.cat([found[0] for found in by_chunk])
        torch.autograd.backward(roots, [vector_gradients, *totals[len(weights) :]])
        if self.l2 > 0.0:
            (self.l2 * network.sum_of_squares()).backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())

    def _read(self, batch: Batch) -> Ids:
        if self.inputs is None:
            return np.asarray(batch["features"])
        rows = batch["rows"]
        read, parts = self.inputs, chunks(len(rows))
        return np.concatenate(self.pool.map(lambda part: read(self.log, rows[part]), parts))

    def _loss(self, logits: Tensor, batch: Batch) -> Tensor:
        weights, groups = batch.get("weights"), batch.get("groups")
        total = logits[:0].sum()
        by_task = logits.view(len(logits), -1, self.loss.n_logits).squeeze(2)
        for place, task in enumerate(self.tasks):
            labels, reference = batch[f"label:{task}"], batch.get(f"reference:{task}")
            counts = labels != MISSING_LABEL
            if weights is not None:
                counts &= weights > 0.0
            rows = np.flatnonzero(counts)
            if rows.size:
                total = total + self.loss(
                    by_task[torch.from_numpy(rows), place],
                    torch.from_numpy(labels[rows].astype(np.float64)),
                    None if weights is None else torch.from_numpy(weights[rows].astype(np.float64)),
                    None if groups is None else torch.from_numpy(groups[rows].astype(np.int64)),
                    None if reference is None else torch.from_numpy(reference[rows].astype(np.float64)),
                )
        return total


def _add_up(gradients: Sequence[Tensor]) -> Tensor:
    total = gradients[0].clone()
    for gradient in gradients[1:]:
        total += gradient
    return total


def train_ranker(
    objective: RankerObjective, *, n_epochs: int, batch_rows: int, learning_rate: float, show_progress: bool | None
) -> list[float]:
    """Trains the objective's network in place and returns the loss of every batch before its step.

    Dense weights move by Adam, every long table by its own lazy form. The result depends on the objective and the
    options alone.

    Arguments:
        objective: The network, its rows and its loss.
        n_epochs: Passes over the log.
        batch_rows: Rows per step.
        learning_rate: Adam's rate.
        show_progress: True or False; None asks whether somebody watches.
    """
    network = objective.network.train()
    dense, lazy = Adam(network.dense_parameters()), LazyAdam(network.table)
    dense.param_groups[0]["lr"] = learning_rate
    losses: list[float] = []
    with progress(objective.title, objective.log.n_rows * n_epochs, show=show_progress) as bar:
        for epoch in range(n_epochs):
            for batch in objective.batches(batch_rows):
                loss = objective.gradients(batch)
                if not math.isfinite(loss):
                    raise diverged(loss, batch, network, epoch + 1, len(losses) + 1)
                dense.step()
                lazy.step(learning_rate)
                losses.append(loss)
                bar.advance(len(batch["rows"]))
                bar.note(f"loss {loss:.5f}")
    return losses
