"""The only training loop."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from monocal.core.batches import iterate_batches
from monocal.core.log_loss import log_loss
from monocal.core.progress import Progress, progress
from monocal.core.samples import Samples
from monocal.core.spaces import Floats
from monocal.losses import CrossEntropy, Loss
from monocal.training.averaging import WeightAverage
from monocal.training.checkpoints import TrainingState, load_checkpoint, save_checkpoint, training_mark
from monocal.training.diagnosis import diverged
from monocal.training.history import TrainingHistory
from monocal.training.optimisers import Optimisers
from monocal.training.options import TrainingOptions
from monocal.training.threads import torch_threads
from monocal.training.trainable import Trainable

EVALUATION_ROWS = 16_384
"""Rows per forward pass without gradients."""


def train(
    network: Trainable,
    rows: Samples,
    *,
    held_out: Samples | None = None,
    loss: Loss | None = None,
    options: TrainingOptions | None = None,
) -> TrainingHistory:
    """Trains a network in place and returns what happened.

    Rows may be memory maps of any length: memory is that of the network and of one window of batches. The result
    depends on rows, options and the network's start alone; the global random generators are neither read nor
    moved. With held-out rows the network ends with the weights of the check at which their log-loss was lowest,
    the untrained ones included.

    Arguments:
        network: What to train; it may have a penalty of its own.
        rows: The rows to learn from.
        held_out: More recent rows for early stopping.
        loss: What to minimise beside the network's penalty; cross-entropy if not given.
        options: Rates, batches, stopping, checkpoints.

    Example:
        >>> class Line(Trainable):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.line = torch.nn.Parameter(torch.tensor([1.0, 0.0]))
        ...     def forward(self, logits, field_ids=None):
        ...         return self.line[0] * logits + self.line[1]
        >>> z = np.linspace(-2, 2, 4000)
        >>> y = (np.arange(4000) * 0.618034) % 1 < 1 / (1 + np.exp(-(2 * z - 1)))
        >>> network = Line()
        >>> history = train(
        ...     network, Samples.of(z, y, scores_are="logit"), options=TrainingOptions(20, 500, learning_rate=0.05)
        ... )
        >>> [round(x, 1) for x in network(torch.tensor([0.0, 1.0])).tolist()]
        [-1.0, 1.0]
    """
    options = options or TrainingOptions()
    loss = loss or CrossEntropy()
    n_batches = math.ceil(rows.n_rows / options.batch_rows)
    optimisers = Optimisers(network)
    average = WeightAverage(optimisers.dense, options.averaging, options.average_decay, n_batches * options.n_epochs)
    state = TrainingState(network, loss, optimisers, average, TrainingHistory())
    mark = training_mark(rows, network, options)
    with torch_threads(options.n_threads):
        resumed = options.checkpoint is not None and load_checkpoint(options.checkpoint, mark, state)
        if held_out is not None and not resumed:
            state.history.record(_log_loss(network, held_out))
            state.keep_best()
        n_left = (options.n_epochs - state.history.n_epochs) * rows.n_rows
        with progress("training", n_left, show=options.show_progress) as bar:
            for epoch in range(state.history.n_epochs, options.n_epochs):
                if _has_stopped(state.history, options):
                    break
                _one_epoch(state, rows, held_out, options, epoch, bar)
                if options.checkpoint is not None:
                    save_checkpoint(options.checkpoint, mark, state)
        state.settle()
    network.eval()
    return state.history


@torch.no_grad()
def evaluate(network: Trainable, rows: Samples) -> Floats:
    """Returns the network's logits of every row, in float64 and row order."""
    network.eval()
    parts = [
        network(_tensor(batch["logits"]), _tensor(batch["features"]) if "features" in batch else None)
        for batch in iterate_batches(_columns(rows), EVALUATION_ROWS)
    ]
    result: Floats = torch.cat(parts).to(torch.float64).numpy()
    return result


def _one_epoch(
    state: TrainingState,
    rows: Samples,
    held_out: Samples | None,
    options: TrainingOptions,
    epoch: int,
    bar: Progress,
) -> None:
    n_batches = math.ceil(rows.n_rows / options.batch_rows)
    n_steps = n_batches * options.n_epochs
    checks = {round((k + 1) * n_batches / options.checks_per_epoch) for k in range(options.checks_per_epoch)}
    history, network = state.history, state.network
    history.n_epochs = epoch + 1
    network.train()
    state.loss.train()
    state.loss.start_epoch()
    total, since = 0.0, 0
    for number, batch in enumerate(
        iterate_batches(_columns(rows), options.batch_rows, seed=options.seed, epoch=epoch, with_rows=True), start=1
    ):
        step = history.n_steps
        network.set_progress(step / n_steps)
        total += _step(state, batch, options.rate_at(step, n_steps), epoch)
        state.average.update(step)
        history.n_steps += 1
        since += 1
        bar.advance(len(batch["logits"]))
        if number in checks:
            history.train_losses.append(total / since)
            note = f"loss {total / since:.5f}"
            total, since = 0.0, 0
            if held_out is not None:
                with state.average.in_place():
                    if history.record(_log_loss(network, held_out)):
                        state.keep_best()
                network.train()
                note += f", held out {history.held_out_losses[-1]:.5f}"
            bar.note(note)
            if _has_stopped(history, options):
                return


def _step(state: TrainingState, batch: Mapping[str, NDArray[Any]], rate: float, epoch: int) -> float:
    field_ids = _tensor(batch["features"]) if "features" in batch else None
    weights = _tensor(batch["weights"]) if "weights" in batch else None
    logits = state.network(_tensor(batch["logits"]), field_ids)
    loss = state.loss(logits, _tensor(batch["labels"]), weights, field_ids) + state.network.penalty()
    value = float(loss.detach())
    if not math.isfinite(value):
        raise diverged(value, batch, state.network, epoch + 1, state.history.n_steps + 1)
    state.optimisers.step(loss, rate)
    return value


def _has_stopped(history: TrainingHistory, options: TrainingOptions) -> bool:
    return options.patience is not None and history.checks_since_best >= options.patience


def _log_loss(network: Trainable, rows: Samples) -> float:
    return log_loss(evaluate(network, rows), rows.known_labels, rows.weights)


def _columns(rows: Samples) -> dict[str, NDArray[Any]]:
    columns = {"logits": rows.logits, "labels": rows.labels, "features": rows.features, "weights": rows.weights}
    return {name: column for name, column in columns.items() if column is not None}


def _tensor(column: NDArray[Any]) -> Tensor:
    # a copy, because torch refuses views of read-only maps; floats in float64, as maps integrate in it
    return torch.tensor(column, dtype=torch.float64 if column.dtype.kind == "f" else None)
