"""A trained factorisation machine with a deep part, as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray

from monocal.core.batches import release_pages
from monocal.core.progress import Progress
from monocal.core.samples import Ids
from monocal.core.spaces import Floats
from monocal.kernels.embedding import embedding_kernels
from monocal.lab.rankers.fm.dense import DenseBuffers, DenseShape, forward
from monocal.lab.rankers.fm.field_plan import FieldPlan
from monocal.lab.rankers.fm.first_layer import FirstLayer
from monocal.lab.rankers.fm.threads import workers

Floats32 = NDArray[np.float32]

CHUNK_ROWS = 2_048
"""Rows that go through the network at a time: their activations stay in the cache, their products are large enough."""

_WINDOW_CHUNKS = 64


@final
@dataclass(frozen=True)
class FmModel:
    r"""Scores rows of field ids.

    .. math:: z_t(x) = \sum_f w_{f,t}[x_f] + \alpha_t\,\tfrac12 \sum_d \Big(\big(\sum_f e_{f,d}\big)^2 -
        \sum_f e_{f,d}^2\Big) + v_t^\top \mathrm{DNN}_t(e)

    There is no global bias; with one task :math:`\alpha = 1`.

    Attributes:
        values: Per field value its embedding and one linear weight per task, `(sum of sizes, d + tasks)`.
        dense: The dense parameters as one flat vector.
        field_sizes: Ids per field, id 0 included.
        hidden: Hidden widths.
        n_tasks: How many logits per row.
    """

    values: Floats32
    dense: Floats32
    field_sizes: tuple[int, ...]
    hidden: tuple[int, ...]
    n_tasks: int = 1

    @property
    def n_dimensions(self) -> int:
        return int(self.values.shape[1]) - self.n_tasks

    @property
    def shape(self) -> DenseShape:
        return DenseShape(len(self.field_sizes) * self.n_dimensions, self.hidden, self.n_tasks)

    def embeddings(self) -> tuple[Floats32, ...]:
        """Returns one table `(field_sizes[f], d)` per field."""
        bounds = np.cumsum(self.field_sizes)[:-1]
        return tuple(np.split(self.values[:, : self.n_dimensions], bounds))

    def score(self, features: Ids, n_threads: int, bar: Progress | None = None) -> Floats:
        """Returns logits `(rows, tasks)`; ids that a field does not have count as unseen.

        Arguments:
            features: Field ids `(rows, fields)`, possibly a memory map.
            n_threads: How many threads share the chunks; the result does not depend on it.
            bar: Told about finished rows.
        """
        n_rows = features.shape[0]
        plan = FieldPlan.of(self.field_sizes, self.n_dimensions)
        views = self.shape.split(torch.from_numpy(self.dense))
        gather = embedding_kernels(self.n_dimensions).gather
        out = np.empty((n_rows, self.n_tasks))
        first_layer = FirstLayer(plan, views.weights[0], views.biases[0], self.values)

        def score_chunk(start: int, space: ChunkSpace) -> None:
            ids = np.ascontiguousarray(features[start : start + CHUNK_ROWS])
            n = ids.shape[0]
            parts = (space.inputs[:n], space.sums, space.pairs[:n], space.linear[:n])
            gather(ids, plan.sizes, plan.offsets, plan.columns, self.values, space.rows, *parts)
            inputs, _, pairs, linear = (torch.from_numpy(part) for part in parts)
            hidden = first_layer.forward(space.rows[:n], inputs, space.buffers.hidden[0][:n])
            out[start : start + n] = forward(views, hidden, pairs, linear, space.buffers).numpy()

        with workers(n_threads, lambda: ChunkSpace(plan, self.shape)) as run, torch.inference_mode():
            for first in range(0, n_rows, _WINDOW_CHUNKS * CHUNK_ROWS):
                stop = min(first + _WINDOW_CHUNKS * CHUNK_ROWS, n_rows)
                run(score_chunk, range(first, stop, CHUNK_ROWS))
                release_pages(features)
                if bar is not None:
                    bar.advance(stop - first)
        return out


@final
class ChunkSpace:
    """Buffers of one scoring thread, for at most `n_rows` rows at a time."""

    def __init__(self, plan: FieldPlan, shape: DenseShape, n_rows: int = CHUNK_ROWS) -> None:
        self.rows = np.empty((n_rows, len(plan.field_sizes)), np.int32)
        self.inputs = np.empty((n_rows, plan.n_inputs), np.float32)
        self.sums = np.empty((n_rows, plan.n_dimensions), np.float32)
        self.pairs = np.empty(n_rows, np.float32)
        self.linear = np.empty((n_rows, shape.n_tasks), np.float32)
        self.buffers = DenseBuffers(shape, n_rows, backward=False)
