"""One training step of a deep factorisation machine, touching only the table rows that a batch needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray

from monocal.core.samples import Ids
from monocal.kernels.embedding import embedding_kernels
from monocal.lab.rankers.fm.dense import DenseBuffers, DenseShape, backward, forward
from monocal.lab.rankers.fm.field_plan import FOLDED_VALUES, FieldPlan
from monocal.lab.rankers.fm.first_layer import FirstLayer
from monocal.lab.rankers.fm.model import CHUNK_ROWS, Floats32, FmModel
from monocal.lab.rankers.fm.threads import Run

DECAY1, DECAY2, FLOOR = 0.9, 0.999, 1e-8
"""Adam's usual constants."""

START_SCALE = 1e-4
"""Standard deviation of embeddings and linear weights at the start."""


@final
@dataclass
class FmState:
    """Everything that training changes.

    Attributes:
        store: Per field value the numbers, then Adam's first and second moments of them, `(rows, 3·(d + tasks))`.
        dense: The dense parameters.
        moments1: Adam's first moments of the dense parameters.
        moments2: Adam's second moments of the dense parameters.
        n_steps: Steps taken.
    """

    store: Floats32
    dense: torch.Tensor
    moments1: torch.Tensor
    moments2: torch.Tensor
    n_steps: int = 0

    @classmethod
    def start(cls, field_sizes: tuple[int, ...], n_dimensions: int, shape: DenseShape, seed: int) -> FmState:
        """Draws the starting point: normal(0, 1e-4) in the table, `DenseShape.start` in the network."""
        width = n_dimensions + shape.n_tasks
        store = np.zeros((int(sum(field_sizes)), 3 * width), np.float32)
        stream = np.random.default_rng([seed, 0])
        block = 1 << 18
        for first in range(0, store.shape[0], block):
            part = store[first : first + block, :width]
            part[...] = START_SCALE * stream.standard_normal(part.shape, np.float32)
        dense = shape.start(seed)
        return cls(store, dense, torch.zeros_like(dense), torch.zeros_like(dense))


@final
class FmTrainer:
    r"""Takes Adam steps on mean log-loss, summed over tasks, plus an L2 penalty.

    The penalty is `l2` times the sum of squares of weights, heads, embeddings and linear weights, without biases.
    Adam is lazy on the table: moments, step and penalty of a value change only in batches where it occurs; all other
    rows keep their bits. That differs from dense Adam, which moves every row in every step.

    Each chunk of rows has a gradient of its own and chunks are added up in order, so the result does not depend on the
    number of threads.

    Arguments:
        field_sizes: Ids per field.
        n_dimensions: Length of an embedding.
        shape: The dense half.
        state: Where to start from; changed in place.
        learning_rate: Adam's step.
        l2: Strength of the penalty.
        batch_rows: Most rows in a batch.
    """

    def __init__(
        self,
        field_sizes: tuple[int, ...],
        n_dimensions: int,
        shape: DenseShape,
        state: FmState,
        learning_rate: float,
        l2: float,
        batch_rows: int,
    ) -> None:
        self.field_sizes, self.shape, self.state = field_sizes, shape, state
        self.learning_rate, self.l2 = learning_rate, l2
        self._n_dimensions = n_dimensions
        # Folding a field costs as much as passing so many rows through its share of the layer.
        self._plan = FieldPlan.of(field_sizes, n_dimensions, min(FOLDED_VALUES, batch_rows // 4))
        self._kernels = embedding_kernels(n_dimensions)
        self._views = shape.split(state.dense)
        n_fields, n_tasks = len(field_sizes), shape.n_tasks
        self._rows = np.empty((batch_rows, n_fields), np.int32)
        self._inputs = np.empty((batch_rows, self._plan.n_inputs), np.float32)
        self._sums = np.empty((batch_rows, n_dimensions), np.float32)
        self._pairs = np.empty(batch_rows, np.float32)
        self._linear = np.empty((batch_rows, n_tasks), np.float32)
        self._pair_gradients = np.empty(batch_rows, np.float32)
        self._slots = np.full(state.store.shape[0], -1, np.int32)
        n_chunks = -(-batch_rows // CHUNK_ROWS)
        # Chunks write only the large fields' part of the first layer's weights; the rest must be and stay zero.
        self._chunk_gradients = torch.zeros(n_chunks, shape.n_parameters)
        self._chunk_views = [shape.split(part) for part in self._chunk_gradients]
        self._chunk_totals = np.empty((n_chunks, self._plan.n_values, shape.widths[1]), np.float32)
        self._gradient = torch.empty(shape.n_parameters)
        self._value_gradients = np.empty((self._plan.n_values, n_dimensions), np.float32)
        self._chunk_losses = np.empty(n_chunks)

    def workspace(self) -> TrainingSpace:
        """Buffers for one more thread."""
        return TrainingSpace(self.shape, self._rows.shape[0], self._n_dimensions)

    def step(self, features: Ids, labels: Floats32, weights: Floats32, run: Run) -> float:
        """Learns from one batch and returns its mean log-loss before the step, summed over tasks.

        Arguments:
            features: Field ids.
            labels: 0 or 1, `(rows, tasks)`; what stands where a weight is 0 does not matter.
            weights: How much each label counts, `(rows, tasks)`; normalised to mean 1 over the batch per task.
            run: Shares work among threads.
        """
        n_rows = features.shape[0]
        totals = weights.sum(axis=0, dtype=np.float64)
        shares = (weights / np.where(totals > 0.0, totals, 1.0)).astype(np.float32)
        n_chunks = -(-n_rows // CHUNK_ROWS)
        first_layer = FirstLayer(self._plan, self._views.weights[0], self._views.biases[0], self.state.store)

        def learn_chunk(chunk: int, space: TrainingSpace) -> None:
            rows = slice(chunk * CHUNK_ROWS, min((chunk + 1) * CHUNK_ROWS, n_rows))
            batch = features[rows], labels[rows], shares[rows]
            self._chunk_losses[chunk] = self._pass_chunk(chunk, rows, batch, first_layer, space.buffers)

        run(learn_chunk, range(n_chunks))
        self._add_up(n_chunks, first_layer)
        self.state.n_steps += 1
        self._step_dense()
        self._step_table(n_rows, run)
        return float(self._chunk_losses[:n_chunks].sum())

    def model(self) -> FmModel:
        """Copies what scoring needs out of the state."""
        width = self._n_dimensions + self.shape.n_tasks
        values = np.ascontiguousarray(self.state.store[:, :width])
        return FmModel(values, self.state.dense.numpy().copy(), self.field_sizes, self.shape.hidden, self.shape.n_tasks)

    def _pass_chunk(
        self,
        chunk: int,
        rows: slice,
        batch: tuple[Ids, Floats32, Floats32],
        first_layer: FirstLayer,
        buffers: DenseBuffers,
    ) -> float:
        plan, gradients = self._plan, self._chunk_views[chunk]
        features, labels, shares = batch
        places = self._rows[rows]
        parts = (self._inputs[rows], self._sums[rows], self._pairs[rows], self._linear[rows])
        ids = np.ascontiguousarray(features)
        self._kernels.gather(ids, plan.sizes, plan.offsets, plan.columns, self.state.store, places, *parts)
        inputs, _, pairs, linear = (torch.from_numpy(part) for part in parts)
        known, share = torch.from_numpy(labels), torch.from_numpy(shares)
        hidden = first_layer.forward(places, inputs, buffers.hidden[0][: len(ids)])
        logits = forward(self._views, hidden, pairs, linear, buffers)
        losses = (torch.nn.functional.softplus(logits) - known * logits) * share
        loss = float(losses.sum(dtype=torch.float64))
        logit_gradients = logits.sigmoid_().sub_(known).mul_(share)
        upper, pair_gradients = backward(self._views, gradients, pairs, logit_gradients, buffers)
        first_layer.backward(places, inputs, upper, gradients.weights[0], self._chunk_totals[chunk])
        # The chunk's linear terms are no longer needed, so their place holds the gradients.
        linear.copy_(logit_gradients)
        self._pair_gradients[rows] = pair_gradients.numpy()
        return loss

    def _add_up(self, n_chunks: int, first_layer: FirstLayer) -> None:
        torch.sum(self._chunk_gradients[:n_chunks], 0, out=self._gradient)
        totals = self._chunk_totals[0]
        for other in self._chunk_totals[1:n_chunks]:
            totals += other
        first_layer.finish(totals, self.shape.split(self._gradient).weights[0], self._value_gradients)

    def _step_dense(self) -> None:
        state, gradient = self.state, self._gradient
        parts = self.shape.split(gradient)
        for into, weight in zip((*parts.weights, parts.heads), (*self._views.weights, self._views.heads), strict=True):
            into.add_(weight, alpha=2.0 * self.l2)
        state.moments1.lerp_(gradient, 1.0 - DECAY1)
        state.moments2.mul_(DECAY2).addcmul_(gradient, gradient, value=1.0 - DECAY2)
        rate, correction = self._rate()
        state.dense.addcdiv_(state.moments1, (state.moments2.sqrt() / correction).add_(FLOOR), value=-rate)

    def _step_table(self, n_rows: int, run: Run) -> None:
        rate, correction = self._rate()
        # ε is moved inside the correction, so that the kernel computes exactly Adam's step.
        constants = [np.float32(c) for c in (rate * correction, DECAY1, DECAY2, FLOOR * correction, 2.0 * self.l2)]

        shifts = dict(zip(self._plan.small, self._plan.shifts.tolist(), strict=True))

        def update_field(field: int, space: TrainingSpace) -> None:
            self._kernels.update(
                field,
                int(self._plan.columns[field]),
                shifts.get(field, 0),
                self._rows[:n_rows],
                self._inputs[:n_rows],
                self._value_gradients,
                self._sums[:n_rows],
                self._pair_gradients[:n_rows],
                self._linear[:n_rows],
                self.state.store,
                self._slots,
                space.gradients,
                space.linears,
                space.touched,
                *constants,
            )

        # Large fields first, so that no thread is left with one at the end.
        run(update_field, np.argsort(-self._plan.sizes, kind="stable").tolist())

    def _rate(self) -> tuple[float, float]:
        n = self.state.n_steps
        return self.learning_rate / (1.0 - DECAY1**n), (1.0 - DECAY2**n) ** 0.5


@final
class TrainingSpace:
    """Buffers of one training thread."""

    def __init__(self, shape: DenseShape, batch_rows: int, n_dimensions: int) -> None:
        self.buffers = DenseBuffers(shape, CHUNK_ROWS, backward=True)
        self.gradients = np.empty((batch_rows, n_dimensions), np.float32)
        self.linears = np.empty((batch_rows, shape.n_tasks), np.float32)
        self.touched = np.empty(batch_rows, np.int32)


def observed(labels: NDArray[np.int8]) -> tuple[Floats32, Floats32]:
    """Splits labels with −1 for missing into 0/1 labels and 0/1 weights.

    Example:
        >>> [part.tolist() for part in observed(np.array([1, -1, 0], np.int8))]
        [[1.0, 0.0, 0.0], [1.0, 0.0, 1.0]]
    """
    return np.maximum(labels, 0).astype(np.float32), (labels >= 0).astype(np.float32)
