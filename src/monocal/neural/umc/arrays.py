"""UMC's fitted map without torch: by the compiled loops, or row by row where numba is not installed."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from monocal.calibrators.row_scorer import RowScorer
from monocal.compiled.limits import LOG_SCALE_LIMIT
from monocal.core.samples import Ids
from monocal.core.spaces import Floats
from monocal.neural.arrays.context_table import ContextTable, Weights
from monocal.neural.arrays.fitted_map import believed_share, curve_weights
from monocal.neural.arrays.layers import Layers


@final
class KnotsCurve:
    """Integrates the broken line through positive heights at fixed knots, then rescales; where numba is missing.

    Row by row with the functions that the compiled loops are made of, hence with their guarantee: never decreases in
    the logit for a fixed context row.

    Arguments:
        weights: Arrays under the names of the torch map.

    Example:
        One row with heights 1, 1, 3 at knots -1, 0, 1.

        >>> curve = KnotsCurve({"curve.knots": np.array([-1.0, 0.0, 1.0]), "beta": np.zeros(1),
        ...                     "constants": np.array([0.0, 0.0, 2.0])})
        >>> curve(np.array([-2.0, -0.5, 1.0, 2.0]), None).tolist()
        [-2.0, -0.5, 2.0, 5.0]
    """

    def __init__(self, weights: Weights) -> None:
        self.knots: Floats = weights["curve.knots"].astype(np.float64)
        self.beta = float(weights["beta"][0])
        self.constants = weights.get("constants")
        self.trunk = None if self.constants is not None else Layers.of(weights, "trunk")

    def __call__(self, logits: Floats, context: NDArray[np.float32] | None) -> Floats:
        # defining the loop loads numba where it is installed, and listing the methods must not
        from monocal.compiled.knot_integral import integrate_knots

        n_knots = self.knots.shape[0]
        raw = self._outputs(logits.shape[0], context)
        area: Floats = np.array([integrate_knots(t, self.knots, n_knots, raw, row) for row, t in enumerate(logits)])
        if raw.shape[1] == n_knots:
            return area + self.beta
        log_scales, shifts = raw[:, n_knots:].astype(np.float64).T
        scales = np.exp(np.clip(log_scales, -LOG_SCALE_LIMIT, LOG_SCALE_LIMIT))
        result: Floats = scales * area + (scales * self.beta + shifts)
        return result

    def _outputs(self, n_rows: int, context: NDArray[np.float32] | None) -> NDArray[np.float32]:
        if self.trunk is not None:
            assert context is not None
            return self.trunk(context)
        assert self.constants is not None
        return np.repeat(self.constants[None], n_rows, axis=0)


@final
class CompiledUmc:
    """Calibrated logits of a fitted UMC, from the ranker's logits and field ids. A row's result depends on that row
    alone, to the last bit.

    Arguments:
        weights: What the calibrator learned, with a curve that is believed to more than 0.
    """

    def __init__(self, weights: Weights) -> None:
        from monocal.compiled.umc_predictor import umc_predictor

        context = ContextTable.of(weights)
        sizes = sizes_of(weights)
        state = curve_weights(weights)
        self.n_fields = len(sizes)
        self.share = believed_share(weights)
        self.line = np.array([*weights["affine"], self.share, 0.0], np.float64)
        # the compiled loops add shifts to the curve; divided before, they are themselves again after the mix
        shifts = None if "wide.shifts" not in weights else weights["wide.shifts"] / self.share
        constant = float(weights["wide.intercept"][0]) / self.share if "wide.intercept" in weights else 0.0
        self.predictor = umc_predictor(
            state,
            field_sizes=sizes.tolist(),
            integrand="knots" if "curve.knots" in state else "concat",
            vectors=None if context is None else per_id(context.vectors(), context.offsets, sizes),
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
                out[0] = expit(out[0])  # the same loop, without the way there of arrays
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
