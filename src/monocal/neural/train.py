"""Training a network of logits and field ids: batches, Adam, a falling rate, and the best weights kept."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim.adam import adam

from monocal.core.dataset import Dataset
from monocal.core.errors import MonocalError
from monocal.core.process import progress
from monocal.core.scores import Floats
from monocal.neural.batches import batches_in_order, shuffled_batches
from monocal.neural.losses import Loss

Schedule = Literal["cosine", "constant"]
Batch = Mapping[str, NDArray[Any]]

EVALUATION_ROWS = 16_384
"""Rows per forward pass without gradients."""

_WARM_UP = 0.02
"""The learning rate rises from 0 over this share of the steps: Adam's first estimates are too noisy to trust."""

_ROWS_SHOWN = 5


class TrainingDiverged(MonocalError, ArithmeticError):
    """The training loss became infinite or not a number. The message names the rows and what is suspicious."""


@dataclass(frozen=True)
class TrainingOptions:
    """How to train, apart from what.

    Arguments:
        n_epochs: Passes over the rows.
        batch_rows: Rows per step.
        learning_rate: Adam's rate at its highest.
        schedule: `cosine` lets the rate fall to 0 over the whole training; `constant` keeps it.
        seed: Seed of the row order.
        show_progress: True or False; None asks whether somebody watches.

    Example:
        >>> TrainingOptions(learning_rate=0.1).rate_at(50, 100)
        0.05
    """

    n_epochs: int = 2
    batch_rows: int = 4096
    learning_rate: float = 4e-3
    schedule: Schedule = "cosine"
    seed: int = 0
    show_progress: bool | None = None

    def rate_at(self, step: int, n_steps: int) -> float:
        """Returns the learning rate of a step, counted from 0."""
        warm_up = _WARM_UP * n_steps
        rising = min((step + 1) / warm_up, 1.0) if warm_up > 1.0 else 1.0
        falling = 0.5 * (1.0 + math.cos(math.pi * step / n_steps)) if self.schedule == "cosine" else 1.0
        return self.learning_rate * min(rising, falling)


def train(
    network: Any, rows: Dataset, loss: Loss, options: TrainingOptions, held_out: Dataset | None = None
) -> dict[str, Any]:
    """Trains a network in place and returns losses along the way.

    Rows may be memory maps of any length: memory is that of the network and of one window of batches. The result
    depends on rows, options and the network's start alone; the global random generators are neither read nor moved.
    With held-out rows the network ends with the weights of the epoch after which their log-loss was lowest, the
    untrained ones included.

    Arguments:
        network: A torch module of logits and field ids, like `MonotoneMap`; its `penalty()` is added to the loss, and
            `set_progress(share)` tells it how much of the training is done.
        rows: The rows to learn from.
        loss: What to minimise beside the network's penalty.
        options: Rates and batches.
        held_out: More recent rows that choose when to stop.

    Example:
        >>> from monocal.neural.losses import CrossEntropy
        >>> class Line(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.line = nn.Parameter(torch.tensor([1.0, 0.0]))
        ...     def forward(self, logits, field_ids=None):
        ...         return self.line[0] * logits + self.line[1]
        ...     def penalty(self):
        ...         return torch.zeros(())
        ...     def set_progress(self, share):
        ...         pass
        >>> z = np.linspace(-2, 2, 4000)
        >>> y = (np.arange(4000) * 0.618034) % 1 < 1 / (1 + np.exp(-(2 * z - 1)))
        >>> network = Line()
        >>> rows = Dataset.of(z, y, scores_are="logit")
        >>> history = train(network, rows, CrossEntropy(), TrainingOptions(20, 500, learning_rate=0.05))
        >>> [round(x, 1) for x in network(torch.tensor([0.0, 1.0])).tolist()]
        [-1.0, 1.0]
    """
    every = columns_of(rows)
    n_batches = math.ceil(rows.n_rows / options.batch_rows)
    n_steps, step = n_batches * options.n_epochs, 0
    optimisers = optimisers_of(network)
    losses: list[float] = []
    checks: list[float] = []
    best: dict[str, Tensor] = {}

    def check() -> None:
        assert held_out is not None
        checks.append(held_out.log_loss(evaluate(network, held_out)))
        if len(checks) == 1 or checks[-1] < min(checks[:-1]):
            best.update({name: value.detach().clone() for name, value in network.state_dict().items()})

    with torch_threads(1), progress("training", rows.n_rows * options.n_epochs, show=options.show_progress) as bar:
        if held_out is not None:
            check()
        for epoch in range(options.n_epochs):
            network.train()
            loss.train()
            loss.start_epoch()
            total = 0.0
            for batch in shuffled_batches(every, options.batch_rows, seed=options.seed, epoch=epoch):
                network.set_progress(step / n_steps)
                columns = _tensors(batch)
                field_ids = columns.get("features")
                logits = network(columns["logits"], field_ids)
                found = loss(logits, columns["labels"], columns.get("weights"), field_ids) + network.penalty()
                network.zero_grad(set_to_none=True)
                found.backward()
                value = float(found.detach())
                if not math.isfinite(value):
                    raise diverged(value, batch, network, epoch + 1, step + 1)
                for optimiser in optimisers:
                    for group in optimiser.param_groups:
                        group["lr"] = options.rate_at(step, n_steps)
                    optimiser.step()
                step, total = step + 1, total + value
                bar.advance(len(batch["rows"]))
            losses.append(total / n_batches)
            note = f"loss {losses[-1]:.5f}"
            if held_out is not None:
                check()
                note += f", held out {checks[-1]:.5f}"
            bar.note(note)
    if best:
        network.load_state_dict(best)
    network.eval()
    return {"train_losses": losses, "held_out_losses": checks, "n_steps": step}


@torch.no_grad()
def evaluate(network: Any, rows: Dataset) -> Floats:
    """Returns the network's logits of every row, in float64 and row order."""
    network.eval()
    result = np.empty(rows.n_rows)
    for batch in batches_in_order(columns_of(rows), EVALUATION_ROWS):
        columns = _tensors(batch)
        result[batch["rows"]] = network(columns["logits"], columns.get("features")).numpy()
    return result


def columns_of(rows: Dataset) -> dict[str, NDArray[Any]]:
    """Returns the columns that a network learns from."""
    columns = {"logits": rows.z, "labels": rows.y, "features": rows.ids, "weights": rows.w}
    return {name: column for name, column in columns.items() if column is not None}


def _tensors(batch: Batch) -> dict[str, Tensor]:
    # copies, because torch refuses views of read-only maps; floats in float64, as maps integrate in it
    return {
        name: torch.tensor(column, dtype=torch.float64 if column.dtype.kind == "f" else None)
        for name, column in batch.items()
        if name != "rows"
    }


@contextmanager
def torch_threads(n_threads: int) -> Iterator[None]:
    """Sets torch's number of threads for a while.

    Example:
        >>> before = torch.get_num_threads()
        >>> with torch_threads(1):
        ...     torch.get_num_threads()
        1
        >>> torch.get_num_threads() == before
        True
    """
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(n_threads)
        yield
    finally:
        torch.set_num_threads(before)


# Optimisers


def optimisers_of(network: nn.Module) -> list[Any]:
    """Returns what moves a network's trainable weights: Adam, and its sparse form for long tables.

    The weights of a module whose attribute `sparse` is true, as torch's own embeddings have it, get gradients for the
    rows of the batch alone, and the sparse form updates only those; a step then costs the time of the batch however
    long the table is.
    """
    sparse = {
        id(weight)
        for module in network.modules()
        if getattr(module, "sparse", False)
        for weight in module.parameters(recurse=False)
    }
    trainable = [weight for weight in network.parameters() if weight.requires_grad]
    dense = [weight for weight in trainable if id(weight) not in sparse]
    long = [weight for weight in trainable if id(weight) in sparse]
    return [*([Adam(dense)] if dense else []), *([torch.optim.SparseAdam(long)] if long else [])]


@final
class Adam:
    r"""The steps of `torch.optim.Adam(weights, fused=True)`, bit for bit.

    .. math:: m \leftarrow \beta_1 m + (1-\beta_1) g, \quad v \leftarrow \beta_2 v + (1-\beta_2) g^2, \quad
        x \leftarrow x - \eta\,\frac{m / (1-\beta_1^t)}{\sqrt{v / (1-\beta_2^t)} + \epsilon}

    The class of torch loads torch's compiler when it is first made, which takes longer than the training of a small
    calibrator; the function below it does not.

    Arguments:
        weights: What to move; a weight without a gradient stays, and its t does not count the step.

    Example:
        >>> weight = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> weight.sum().backward()
        >>> optimiser = Adam([weight])
        >>> optimiser.param_groups[0]["lr"] = 0.5
        >>> optimiser.step()
        >>> [round(value, 4) for value in weight.tolist()]
        [0.5, 1.5]
    """

    def __init__(self, weights: Sequence[Tensor]) -> None:
        self.param_groups: list[dict[str, Any]] = [{"params": list(weights), "lr": 1e-3}]
        self.state: dict[int, dict[str, Tensor]] = {}

    @torch.no_grad()
    def step(self) -> None:
        """Moves the weights against their gradients."""
        (group,) = self.param_groups
        moved = [(place, weight) for place, weight in enumerate(group["params"]) if weight.grad is not None]
        for place, weight in moved:
            if place not in self.state:
                moments = {name: torch.zeros_like(weight) for name in ("exp_avg", "exp_avg_sq")}
                self.state[place] = {"step": torch.zeros((), dtype=torch.float32), **moments}
        states = [self.state[place] for place, _ in moved]
        adam(
            [weight for _, weight in moved],
            [weight.grad for _, weight in moved],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=group["lr"],
            weight_decay=0.0,
            eps=1e-8,
            maximize=False,
        )


# Why a loss is not a number


def diverged(loss: float, batch: Batch, network: nn.Module, epoch: int, step: int) -> TrainingDiverged:
    """Builds the error for a batch whose loss is not finite.

    Arguments:
        loss: The loss.
        batch: The batch's columns, with its row numbers under `rows`.
        network: The network, whose weights may be broken already.
        epoch: The epoch, counted from 1.
        step: The step, counted from 1.
    """
    where = f"epoch {epoch}, step {step}: the loss is {loss}"
    floats = {name: column for name, column in batch.items() if name != "rows" and column.dtype.kind == "f"}
    for name, column in floats.items():
        broken = np.flatnonzero(~np.isfinite(column))
        if broken.size:
            rows = ", ".join(str(row) for row in batch["rows"][broken[:_ROWS_SHOWN]])
            more = f" and {broken.size - _ROWS_SHOWN} more" if broken.size > _ROWS_SHOWN else ""
            return TrainingDiverged(
                f"{where}, because column {name!r} is {column[broken[0]]} at rows {rows}{more}. "
                "Hint: drop or fill those rows"
            )
    weights = [name for name, weight in network.named_parameters() if not bool(weight.detach().isfinite().all())]
    if weights:
        return TrainingDiverged(
            f"{where}, because the weights {', '.join(weights)} are no longer finite. Hint: lower the learning rate"
        )
    finite = f"{where} although every input and weight is finite"
    sizes = {name: np.abs(column) for name, column in floats.items() if name != "labels" and column.ndim == 1}
    if not sizes:
        return TrainingDiverged(f"{finite}. Hint: lower the learning rate")
    name = max(sizes, key=lambda column: float(sizes[column].max()))
    place = int(sizes[name].argmax())
    return TrainingDiverged(
        f"{finite}; the largest value is {float(batch[name][place]):g} in column {name!r} at row "
        f"{int(batch['rows'][place])}. Hint: check that row, or lower the learning rate"
    )
