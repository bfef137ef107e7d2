"""AdaCalib: one broken line of the score per value of one field, drawn by a network from that value's statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional

from monocal.core.errors import InvalidInput
from monocal.lab.reconstructions.adacalib import PROBABILITY_FLOOR
from monocal.neural.context import generator_of
from monocal.neural.maps import Network
from monocal.neural.network import Context, Mlp, MonotoneMap, disorder
from monocal.ops.operations import Ops
from monocal.ops.torch_ops import held_between

N_STATISTICS = 4
LAST_TEMPERATURE = 0.1


@final
class AdaCalibMap(MonotoneMap):
    r"""Doubly-adaptive calibration of one field. Our reconstruction: no code of the method is public.

    For every value v and every candidate number of bins K there are bin edges e and statistics φ per knot (see
    `adacalib_statistics`). A network turns them into knot values, a second one gates the statistics by
    how far the value's posterior can be trusted, a third one weighs the candidates:

    .. math:: a_k = \sigma(\mathrm{net}_1[v;\ \phi_k \cdot 2\sigma(\mathrm{net}_2(v));\ k/K]), \qquad
              p' = \sum_c \mathrm{softmax}(\mathrm{net}_3[v; \ln(1+n_v)] / \tau)_c\ \mathrm{line}_c(p)

    Training mixes the candidates at a temperature τ that falls from 1 to 0.1; evaluation takes the best one.

    Order is encouraged by a penalty over the most recent batch. With `hard_monotone` the knot values are a start
    plus positive steps, and the map never decreases.

    References:
        Wei et al. Posterior probability matters: doubly-adaptive calibration for neural predictions in online
        advertising. SIGIR 2022.

    Arguments:
        edges: Per candidate, increasing edges `(V, K + 1)` from 0 to 1 for each of the field's V ids.
        statistics: Per candidate, statistics of every knot `(V, K + 1, 4)`.
        n_rows: How many fitting rows each value has `(V,)`.
        n_dimensions: Length of a value's vector; id 0 (unseen) starts at the zero vector.
        hidden: Widths of the network behind the knot values.
        hard_monotone: Whether to guarantee order.
        seed: Seed of the initial weights.

    The context is the field's id, shape `(b, 1)`.
    """

    def __init__(
        self,
        edges: Sequence[Tensor],
        statistics: Sequence[Tensor],
        n_rows: Tensor,
        *,
        n_dimensions: int = 16,
        hidden: Sequence[int] = (64, 32),
        hard_monotone: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__({}, self._values, context_width=1)
        if not edges or len(edges) != len(statistics):
            raise InvalidInput.of(
                "edges", f"{len(edges)} candidates", f"one per statistics ({len(statistics)})", "pass both lists"
            )
        generator = generator_of(seed)
        self.hard_monotone = hard_monotone
        self.n_candidates = len(edges)
        for c, (e, s) in enumerate(zip(edges, statistics, strict=True)):
            self.register_buffer(f"edges_{c}", e.to(torch.float64))
            self.register_buffer(f"statistics_{c}", s.to(torch.float32))
        self.register_buffer("log_rows", torch.log1p(n_rows.to(torch.float32))[:, None])
        self.register_buffer("temperature", torch.tensor(1.0))
        vectors = torch.empty(n_rows.shape[0], n_dimensions)
        nn.init.normal_(vectors, std=0.05, generator=generator)
        vectors[0] = 0.0
        self.vectors = nn.Parameter(vectors)
        self.knot_values = Mlp(Network(n_dimensions + N_STATISTICS + 1, hidden, 1), generator)
        self.gate = Mlp(Network(n_dimensions, (), N_STATISTICS), generator)
        self.choice = Mlp(Network(n_dimensions + 1, (), self.n_candidates), generator)
        self._disorder: Tensor | None = None

    def set_progress(self, share: float) -> None:
        """Sharpens the choice among candidates while training."""
        self.get_buffer("temperature").fill_(LAST_TEMPERATURE**share)

    def _lines(self, context: Context) -> tuple[Tensor, ...]:
        """Returns the weights of the candidates, then places and heights of every candidate's line, for every row."""
        assert isinstance(context, Tensor)
        n_rows = context.shape[0]
        ids = context[:, 0].to(torch.int64)
        ids = torch.where((ids >= 0) & (ids < self.vectors.shape[0]), ids, 0)
        values, of_row = torch.unique(ids, return_inverse=True)
        vectors = self.vectors[values]
        scores = self.choice(torch.cat([vectors, self.get_buffer("log_rows")[values]], dim=1))
        if self.training:
            weights = torch.softmax(scores / self.get_buffer("temperature"), dim=1)
        else:
            weights = functional.one_hot(scores.argmax(dim=1), self.n_candidates)
        condition = [weights.to(torch.float64)[of_row]]
        total_disorder = vectors.new_zeros((), dtype=torch.float64)
        for c in range(self.n_candidates):
            heights = self._heights(c, values, vectors)[of_row]
            total_disorder = total_disorder + disorder(heights) / (n_rows * self.n_candidates)
            condition += [self.get_buffer(f"edges_{c}")[values][of_row], heights]
        self._disorder = total_disorder.to(vectors.dtype)
        return tuple(condition)

    def _heights(self, candidate: int, values: Tensor, vectors: Tensor) -> Tensor:
        statistics = self.get_buffer(f"statistics_{candidate}")[values]
        n_values, n_knots, _ = statistics.shape
        gated = statistics * (2.0 * torch.sigmoid(self.gate(vectors)))[:, None, :]
        place = torch.linspace(0.0, 1.0, n_knots, dtype=vectors.dtype, device=vectors.device)
        inputs = torch.cat(
            [
                vectors[:, None, :].expand(-1, n_knots, -1),
                gated,
                place[None, :, None].expand(n_values, -1, -1),
            ],
            dim=2,
        )
        raw = self.knot_values(inputs)[:, :, 0].to(torch.float64)
        if self.hard_monotone:
            steps = functional.softplus(raw[:, 1:])
            raw = torch.cat([raw[:, :1], raw[:, :1] + torch.cumsum(steps, dim=1)], dim=1)
        return torch.sigmoid(raw)

    def _values(self, _ops: Ops, logits: Tensor, context: Context) -> Tensor:
        weights, *lines = self._lines(context)
        scores = torch.sigmoid(logits)
        mixed = torch.zeros_like(scores)
        for c in range(self.n_candidates):
            mixed = mixed + weights[:, c] * interpolate(lines[2 * c], lines[2 * c + 1], scores)
        return torch.logit(held_between(mixed, PROBABILITY_FLOOR, 1.0 - PROBABILITY_FLOOR))

    def penalty(self) -> Tensor:
        return self.vectors.new_zeros(()) if self._disorder is None else self._disorder


def interpolate(places: Tensor, values: Tensor, at: Tensor) -> Tensor:
    """Evaluates row i's broken line through `(places[i], values[i])`, both `(b, K + 1)`, at `at[i]`.

    Never decreases in `at` when places increase and values do not decrease: inside a segment a non-negative number
    is multiplied and added, and the result is capped by the segment's right value.

    Example:
        >>> import torch
        >>> places = torch.tensor([[0.0, 0.2, 1.0]]).repeat(4, 1)
        >>> values = torch.tensor([[0.02, 0.15, 0.6]]).repeat(4, 1)
        >>> [round(x, 5) for x in interpolate(places, values, torch.tensor([0.1, 0.2, 0.5, 1.0])).tolist()]
        [0.085, 0.15, 0.31875, 0.6]
    """
    reached = (at.detach()[:, None] >= places[:, 1:-1]).sum(dim=1)[:, None]
    left, right = places.gather(1, reached)[:, 0], places.gather(1, reached + 1)[:, 0]
    low, high = values.gather(1, reached)[:, 0], values.gather(1, reached + 1)[:, 0]
    share = held_between((at - left) / (right - left), 0.0, 1.0)
    inside = low + share * (high - low)
    return torch.where((high >= low) & (inside > high), high, inside)


@final
class OneField(nn.Module):
    """Hands the ids of one field on as they are, for maps that look them up themselves.

    Arguments:
        field: The field's column.
    """

    def __init__(self, field: int) -> None:
        super().__init__()
        self.field = field

    def forward(self, field_ids: Tensor) -> Tensor:
        return field_ids[:, self.field : self.field + 1]
