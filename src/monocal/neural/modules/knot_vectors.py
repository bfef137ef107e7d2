"""Vectors of numbers: trained at the knots, straight lines in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from monocal.core.numeric_ids import FIRST_ID, STEPS
from monocal.neural.modules.context_encoder import ContextEncoder


@final
class BetweenKnots(nn.Module):
    """Makes an encoder's table, one vector per id, from one vector per category and per knot.

    Arguments:
        field_sizes: How many ids each field has in the table.
        n_knots: Knots per field, 0 for categories.
    """

    def __init__(self, field_sizes: Sequence[int], n_knots: Sequence[int]) -> None:
        super().__init__()
        self.sizes, self.n_knots = tuple(field_sizes), tuple(n_knots)
        for n in set(self.n_knots) - {0}:
            self.register_buffer(f"hats_{n}", hat_functions(n), persistent=False)

    def forward(self, vectors: Tensor) -> Tensor:
        own = [FIRST_ID + n if n else size for size, n in zip(self.sizes, self.n_knots, strict=True)]
        parts = torch.split(vectors, own)
        hats = [getattr(self, f"hats_{n}") if n else None for n in self.n_knots]
        return torch.cat([part if hat is None else hat @ part for part, hat in zip(parts, hats, strict=True)])

    def right_inverse(self, table: Tensor) -> Tensor:
        """Returns the table's own vectors of categories and knots."""
        parts = torch.split(table, list(self.sizes))
        return torch.cat(
            [
                torch.cat([part[:FIRST_ID], part[FIRST_ID::STEPS]]) if n else part
                for part, n in zip(parts, self.n_knots, strict=True)
            ]
        )


def hat_functions(n_knots: int) -> Tensor:
    """Returns `(ids, unseen, null and knots)`: the weight that each of those has at every id of a field of numbers.

    Example:
        >>> hats = hat_functions(2)
        >>> hats[[0, 1, FIRST_ID, FIRST_ID + STEPS // 4]].tolist()
        [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.75, 0.25]]
    """
    n_ids = FIRST_ID + (n_knots - 1) * STEPS + 1
    places = torch.arange(n_ids, dtype=torch.float64)
    places[FIRST_ID:] = FIRST_ID + (places[FIRST_ID:] - FIRST_ID) / STEPS
    distance = (places[:, None] - torch.arange(FIRST_ID + n_knots)).abs()
    return (1.0 - distance).clamp(min=0.0).to(torch.float32)


def between_knots_(encoder: ContextEncoder, n_knots: Sequence[int]) -> None:
    """Ties the vectors of all numbers between two knots to those of the knots.

    The context is then linear in the hat functions of the knots: the basis that shifts have, too.

    Example:
        >>> encoder = ContextEncoder([FIRST_ID + STEPS + 1], n_dimensions=3)
        >>> between_knots_(encoder, [2])
        >>> table = encoder.table
        >>> sum(weight.numel() for weight in encoder.parameters()), bool(torch.allclose(
        ...     table[FIRST_ID + STEPS // 2], (table[FIRST_ID] + table[-1]) / 2))
        (12, True)
    """
    rule = BetweenKnots(encoder.field_sizes.tolist(), n_knots)
    parametrize.register_parametrization(encoder, "table", rule)
