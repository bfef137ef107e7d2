"""The only training loop."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from monocal.core.progress import Progress, progress
from monocal.training.checkpoints import Checkpoint, TrainingState, load_checkpoint, save_checkpoint, training_mark
from monocal.training.diagnosis import diverged
from monocal.training.history import TrainingHistory
from monocal.training.objective import Batch, Objective
from monocal.training.optimisers import Optimisers
from monocal.training.options import TrainingOptions
from monocal.training.threads import torch_threads


def minimise(objective: Objective, options: TrainingOptions) -> TrainingHistory:
    """Trains the objective's network in place and returns what happened.

    The result depends on the objective and the options alone. With held-out rows the network ends with the weights of
    the check at which their loss was lowest, the untrained ones included. With a checkpoint folder, a training that
    was killed goes on from the last checkpoint and ends with the same weights.

    Arguments:
        objective: The network, its rows and its loss.
        options: Rates, batches, stopping, checkpoints.
    """
    n_rows = len(next(iter(objective.columns().values())))
    n_batches = objective.n_batches(options)
    optimisers = Optimisers(objective.network)
    state = TrainingState(objective.network, objective.loss, optimisers, TrainingHistory())
    checkpoint = None
    if options.checkpoint is not None:
        checkpoint = Checkpoint(Path(options.checkpoint), training_mark(objective, options))
    with torch_threads(options.n_threads):
        resumed = checkpoint is not None and load_checkpoint(checkpoint, state)
        if not resumed:
            start_loss = objective.held_out_loss()
            if start_loss is not None:
                state.history.record(start_loss)
                state.keep_best()
        first_epoch, n_done = divmod(state.history.n_steps, n_batches)
        with progress(objective.title, n_rows * options.n_epochs, show=options.show_progress) as bar:
            bar.advance(first_epoch * n_rows + n_done * options.batch_rows)
            for epoch in range(first_epoch, options.n_epochs):
                if _has_stopped(state.history, options):
                    break
                batches = objective.batches(options, epoch)
                _one_epoch(state, objective, options, epoch, n_batches, batches, checkpoint, bar)
        state.settle()
    if checkpoint is not None:
        checkpoint.clear()
    return state.history


def _one_epoch(
    state: TrainingState,
    objective: Objective,
    options: TrainingOptions,
    epoch: int,
    n_batches: int,
    batches: Iterator[Batch],
    checkpoint: Checkpoint | None,
    bar: Progress,
) -> None:
    n_steps = n_batches * options.n_epochs
    checks = {round((k + 1) * n_batches / options.checks_per_epoch) for k in range(options.checks_per_epoch)}
    history, network = state.history, state.network
    history.n_epochs = epoch + 1
    network.train()
    state.loss.train()
    n_done = history.n_steps - epoch * n_batches
    if n_done == 0:
        objective.start_epoch()
    for number, batch in enumerate(islice(batches, n_done, None), start=n_done + 1):
        step = history.n_steps
        objective.set_progress(step / n_steps)
        loss = objective.gradients(batch)
        if not math.isfinite(loss):
            raise diverged(loss, batch, network, epoch + 1, step + 1)
        state.optimisers.step(options.rate_at(step, n_steps))
        history.add(loss)
        bar.advance(len(batch["rows"]))
        if number in checks:
            _check(state, objective, bar)
        has_stopped = number in checks and _has_stopped(history, options)
        if checkpoint is not None and (
            number == n_batches or has_stopped or history.n_steps % (options.checkpoint_batches or n_batches) == 0
        ):
            save_checkpoint(checkpoint, state)
        if has_stopped:
            return


def _check(state: TrainingState, objective: Objective, bar: Progress) -> None:
    note = f"loss {state.history.close():.5f}"
    held_out_loss = objective.held_out_loss()
    if held_out_loss is not None:
        if state.history.record(held_out_loss):
            state.keep_best()
        note += f", held out {held_out_loss:.5f}"
    state.network.train()
    bar.note(note)


def _has_stopped(history: TrainingHistory, options: TrainingOptions) -> bool:
    return options.patience is not None and history.checks_since_best >= options.patience
