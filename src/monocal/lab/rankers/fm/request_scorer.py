"""A trained factorisation machine made ready for requests of a few hundred rows."""

from __future__ import annotations

from typing import final

import numpy as np
import torch

from monocal.core.samples import Ids
from monocal.core.spaces import Floats
from monocal.kernels.embedding import embedding_kernels
from monocal.lab.rankers.fm.dense import forward
from monocal.lab.rankers.fm.field_plan import FieldPlan
from monocal.lab.rankers.fm.first_layer import FirstLayer
from monocal.lab.rankers.fm.model import ChunkSpace, FmModel

DEFAULT_FOLDED_VALUES = 1 << 17
"""Values whose share of the first layer is kept: 256 MiB with 512 hidden units."""


@final
class RequestScorer:
    """Scores one request after another, with everything prepared that does not depend on the request.

    `FmModel.score` makes its tables and buffers anew in every call, which pays off over thousands of rows only. Here
    they are kept, and as many fields as the budget allows go through the first layer by look-up. The logits are those
    of `FmModel.score` up to rounding. One scorer serves one thread at a time; matrix products use as many threads as
    torch is set to, for small requests one is best.

    Arguments:
        model: The trained model.
        n_rows: Most rows of a request.
        folded_values: Most field values that go through the first layer by look-up.
    """

    def __init__(self, model: FmModel, n_rows: int = 1024, folded_values: int = DEFAULT_FOLDED_VALUES) -> None:
        shape = model.shape
        self.n_rows = n_rows
        self._values = model.values
        self._plan = plan = FieldPlan.of(model.field_sizes, model.n_dimensions, folded_values)
        self._views = shape.split(torch.from_numpy(model.dense))
        self._first = FirstLayer(plan, self._views.weights[0], self._views.biases[0], model.values)
        self._gather = embedding_kernels(model.n_dimensions).gather
        self._space = ChunkSpace(plan, shape, n_rows)

    def __call__(self, ids: Ids, shared: tuple[int, ...] = ()) -> Floats:
        """Returns logits `(rows, tasks)` of at most `n_rows` rows of field ids.

        Arguments:
            ids: Field ids, int32, C-contiguous.
            shared: Fields in which all rows are equal to the first one, such as the user's: their share of the first
                layer is added up once.
        """
        n, plan, space = ids.shape[0], self._plan, self._space
        parts = (space.inputs[:n], space.sums, space.pairs[:n], space.linear[:n])
        self._gather(ids, plan.sizes, plan.offsets, plan.columns, self._values, space.rows, *parts)
        inputs, _, pairs, linear = (torch.from_numpy(part) for part in parts)
        with torch.inference_mode():
            hidden = self._first.forward(space.rows[:n], inputs, space.buffers.hidden[0][:n], shared)
            return forward(self._views, hidden, pairs, linear, space.buffers).numpy().astype(np.float64)
