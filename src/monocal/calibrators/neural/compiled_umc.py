"""UMC's fitted map by the compiled loops: folded tables, exact integral, no torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.neural.context import Context, Weights
from monocal.calibrators.neural.prepared import curve_weights
from monocal.calibrators.row_scorer import RowScorer
from monocal.core.samples import Ids
from monocal.core.spaces import Floats, sigmoid


@final
class CompiledUmc:
    """Calibrated logits of a fitted UMC, from the ranker's logits and field ids. A row's result depends on that row
    alone, to the last bit.

    Arguments:
        weights: What the calibrator learned.
        shared_fields: Fields that are usually equal in consecutive rows: they are summed first, and once while they
            stay the same. Another choice gives the same numbers up to rounding.
    """

    def __init__(self, weights: Weights, shared_fields: Sequence[int] = ()) -> None:
        from monocal.kernels.umc_predictor import umc_predictor

        context = Context.of(weights)
        offsets = [weights[name] for name in ("encoder.offsets", "wide.offsets") if name in weights]
        # a ranker's table and the fitting rows may know different numbers of values
        sizes = np.max([np.diff(one) for one in offsets], axis=0) if offsets else np.zeros(0, np.int64)
        state = curve_weights(weights)
        self.slope, self.intercept = (float(one) for one in weights["affine"])
        self.n_fields = len(sizes)
        self.predictor = umc_predictor(
            state,
            field_sizes=sizes.tolist(),
            integrand="knots" if "curve.knots" in state else "concat",
            vectors=None if context is None else _per_id(context.vectors(), context.offsets, sizes),
            wide_shifts=_per_id(weights["wide.shifts"], weights["wide.offsets"], sizes)
            if "wide.shifts" in weights
            else None,
            intercept=float(weights["wide.intercept"][0]) if "wide.intercept" in weights else 0.0,
        )

    def __call__(self, logits: Floats, features: Ids | None) -> Floats:
        ids = np.zeros((logits.shape[0], 0), np.int32) if features is None or self.n_fields == 0 else features
        return self.predictor.score(self.slope * logits + self.intercept, ids)

    def row_scorer(self, shift: float) -> RowScorer:
        """Returns probabilities of small requests, with `shift` added to every logit."""

        def score(logits: Floats, ids: Ids) -> Floats:
            return sigmoid(self(logits, ids) + shift)

        return score


def _per_id(values: NDArray[Any], offsets: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[Any]:
    """Lengthens every field's rows to its size; the rows added are those of id 0, as for any id out of range."""
    if np.array_equal(np.diff(offsets), sizes):
        return values
    places = [
        offsets[field] + np.where(np.arange(size) < offsets[field + 1] - offsets[field], np.arange(size), 0)
        for field, size in enumerate(sizes)
    ]
    result: NDArray[Any] = values[np.concatenate(places)]
    return result
