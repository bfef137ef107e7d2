"""DESC: an attention-weighted ensemble of fixed curves, one mixture per field."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from monocal.core.errors import InvalidInput
from monocal.neural.modules.field_context import joined
from monocal.neural.modules.mlp import Mlp, generator_of
from monocal.neural.modules.monotone_map import Condition, Context, MonotoneMap, held_between

N_BUCKETS = 100
PROBABILITY_FLOOR = 1e-6
LOGIT_CLAMP = 16.0
N_BASES = 48


def desc_bases(logits: Tensor) -> Tensor:
    r"""Evaluates the 48 curves through (0, 0) and (1, 1): `(b,)` logits give `(b, 48)` in float64.

    Powers :math:`p^a`, scalings :math:`\sigma(a t)` and logarithms :math:`\ln(1 + a p) / \ln(1 + a)`, each for
    16 coefficients a = 0.5, 0.6, …, 2.

    Example:
        >>> import torch
        >>> bases = desc_bases(torch.logit(torch.tensor([0.3], dtype=torch.float64)))
        >>> [round(x, 6) for x in bases[0, [0, 31, 32, 47]].tolist()]
        [0.547723, 0.155172, 0.344695, 0.427816]
    """
    t = logits.to(torch.float64)
    p = torch.sigmoid(t)[:, None]
    a = torch.arange(5, 21, dtype=torch.float64, device=logits.device) / 10.0
    return torch.cat([p**a, torch.sigmoid(t[:, None] * a), torch.log1p(p * a) / torch.log1p(a)], dim=1)


@final
class DescMap(MonotoneMap):
    r"""Deep ensemble shape calibration, in the form that UMC's authors compare with.

    Every field mixes the 48 curves of `desc_bases` with softmax weights from a network of its vector, its
    attention over the other fields and the vector of the score's bucket. A global network weighs the fields and
    multiplies by a value in (0, 1), so the probability can only shrink.

    **Not monotone**: the weights see the score's bucket, so the map jumps at bucket edges. `hard_monotone` leaves
    the bucket out; then the weights are fixed for a fixed context and a positive mixture of increasing curves
    increases.

    References:
        Yang et al. Deep ensemble shape calibration: multi-field post-hoc calibration in online advertising. KDD 2024.

    Arguments:
        n_fields: How many fields the context joins, at least 2.
        n_dimensions: Length of one field's vector; the context has `n_fields * n_dimensions` numbers.
        hidden: Widths of the mixing networks.
        hard_monotone: Leaves the score's bucket out of every weight.
        seed: Seed of the initial weights.

    Example:
        >>> import torch
        >>> desc = DescMap(3, 4, hard_monotone=True)
        >>> low, high = desc(torch.tensor([-1.0, 1.0]), torch.ones(2, 12)).tolist()
        >>> low < high
        True
    """

    def __init__(
        self,
        n_fields: int,
        n_dimensions: int = 16,
        *,
        hidden: Sequence[int] = (200, 200),
        hard_monotone: bool = False,
        seed: int = 0,
    ) -> None:
        if n_fields < 2:
            raise InvalidInput.of("n_fields", n_fields, "at least 2 fields", "use umc or fac for a single field")
        super().__init__(n_fields * n_dimensions, "weak" if hard_monotone else "none")
        generator = generator_of(seed)
        self.n_fields, self.n_dimensions = n_fields, n_dimensions
        self.hard_monotone = hard_monotone
        n_score = 0 if hard_monotone else n_dimensions
        if not hard_monotone:
            buckets = torch.empty(N_BUCKETS, n_dimensions)
            nn.init.normal_(buckets, std=1e-4, generator=generator)
            self.buckets = nn.Parameter(buckets)
        self.shapes = nn.ModuleList(
            Mlp(n_score + 2 * n_dimensions, hidden, N_BASES, generator) for _ in range(n_fields)
        )
        self.joint = Mlp(n_fields * n_dimensions + n_score, (), 64, generator)
        self.field_attention = Mlp(64, (), n_fields, generator)
        self.value = Mlp(64, (8,), 1, generator)

    def _condition(self, context: Context, _n_rows: int) -> Condition:
        assert context is not None
        vectors = joined(context)
        return (self._mixture(vectors, None) if self.hard_monotone else vectors,)

    def _evaluate(self, logits: Tensor, condition: Condition) -> Tensor:
        t = held_between(logits.to(torch.float64), -LOGIT_CLAMP, LOGIT_CLAMP)
        if self.hard_monotone:
            (mixture,) = condition
        else:
            (context,) = condition
            bucket = (torch.sigmoid(t.detach()) * N_BUCKETS).to(torch.int64).clamp(max=N_BUCKETS - 1)
            mixture = self._mixture(context, self.buckets[bucket])
        probabilities = (mixture * desc_bases(t)).sum(dim=1)
        return torch.logit(held_between(probabilities, PROBABILITY_FLOOR, 1.0 - PROBABILITY_FLOOR))

    def _mixture(self, context: Tensor, score_vectors: Tensor | None) -> Tensor:
        """Returns the weight of every curve in the final probability, `(b, 48)` in float64."""
        fields = context.reshape(-1, self.n_fields, self.n_dimensions)
        extra = [] if score_vectors is None else [score_vectors]
        affinity = fields @ fields.transpose(1, 2) / math.sqrt(self.n_dimensions)
        itself = torch.eye(self.n_fields, dtype=torch.bool, device=context.device)
        others = torch.softmax(affinity.masked_fill(itself, -math.inf), dim=2) @ fields
        weights = torch.stack(
            [
                torch.softmax(shape(torch.cat([*extra, fields[:, i], others[:, i]], dim=1)), dim=1)
                for i, shape in enumerate(self.shapes)
            ],
            dim=1,
        )
        joint = torch.relu(self.joint(torch.cat([context, *extra], dim=1)))
        attention = torch.softmax(self.field_attention(joint), dim=1)
        value = torch.sigmoid(self.value(joint))
        mixed = (attention[:, :, None] * weights).sum(dim=1) * value
        return mixed.to(torch.float64)
