"""UMC's fitted map by compiled loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from monocal.calibrators.row_scorer import RowScorer
from monocal.compiled.rows import FoldedPredictor
from monocal.core.samples import Ids
from monocal.core.spaces import Floats
from monocal.neural.fitted import Weights, curve_weights, network_share


@final
class CompiledUmc:
    """Calibrated logits of a fitted UMC, from the ranker's logits and field ids. A row's result depends on that row
    alone, to the last bit.

    Arguments:
        weights: What the calibrator learned, with a curve whose share is above 0.
        predictor: Makes the compiled loops; those of knots if not given.
    """

    def __init__(self, weights: Weights, predictor: Callable[..., Any] | None = None) -> None:
        from monocal.compiled.knots import umc_predictor

        sizes = sizes_of(weights)
        state = curve_weights(weights)
        self.n_fields = len(sizes)
        self.share = network_share(weights)
        self.line = np.array([*weights["affine"], self.share, 0.0], np.float64)
        # the compiled loops add shifts to the curve; divided before, they are themselves again after the mix
        shifts = None if "wide.shifts" not in weights else weights["wide.shifts"] / self.share
        constant = float(weights["wide.intercept"][0]) / self.share if "wide.intercept" in weights else 0.0
        self.predictor: FoldedPredictor = (predictor or umc_predictor)(
            state,
            field_sizes=sizes.tolist(),
            vectors=vectors_of(weights, sizes),
            wide_shifts=None if shifts is None else per_id(shifts, weights["wide.offsets"], sizes),
            intercept=constant,
        )

    def __call__(self, logits: Floats, features: Ids | None) -> Floats:
        ids = np.zeros((logits.shape[0], 0), np.int32) if features is None or self.n_fields == 0 else features
        return self.predictor.score(logits, ids, self.line)

    def row_scorer(self, shift: float) -> RowScorer:
        """Returns probabilities of small requests, with `shift` added to every logit."""
        line = self.line + np.array([0.0, 0.0, 0.0, shift])
        n_fields, write = self.n_fields, self.predictor.write

        def score(logits: Floats, ids: Ids) -> Floats:
            out = np.empty(logits.shape[0])
            write(logits, ids if n_fields else ids[:, :0], line, out)
            if len(out) == 1:
                out[0] = expit(out[0])  # the same loop, without what arrays cost
                return out
            result: Floats = expit(out, out)
            return result

        return score


def sizes_of(weights: Weights) -> NDArray[np.int64]:
    """Returns how many ids each field has: a ranker's table and the fitting rows may know different numbers of them."""
    offsets = [weights[name] for name in ("encoder.offsets", "wide.offsets") if name in weights]
    return np.max([np.diff(places) for places in offsets], axis=0) if offsets else np.zeros(0, np.int64)


def per_id(values: NDArray[Any], offsets: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[Any]:
    """Lengthens every field's rows to its size; the rows added are those of id 0, as for any id out of range."""
    if np.array_equal(np.diff(offsets), sizes):
        return values
    places = [
        offsets[field] + np.where(np.arange(size) < offsets[field + 1] - offsets[field], np.arange(size), 0)
        for field, size in enumerate(sizes)
    ]
    result: NDArray[Any] = values[np.concatenate(places)]
    return result


def vectors_of(weights: Weights, sizes: NDArray[np.int64]) -> NDArray[Any] | None:
    """Returns one vector per id, where the encoder keeps one per slot; None without an encoder."""
    if "encoder.table" not in weights:
        return None
    return per_id(weights["encoder.table"][weights["encoder.slots"]], weights["encoder.offsets"], sizes)
