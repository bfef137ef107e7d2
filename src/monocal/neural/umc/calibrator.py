"""UMC, the method this package is built around."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, final, get_args

from monocal.calibrators.onnx.builder import GraphBuilder
from monocal.calibrators.row_scorer import RowScorer
from monocal.calibrators.score_knots import score_knots
from monocal.compiled.jit import numba_is_installed
from monocal.core.errors import UnknownName
from monocal.core.samples import Samples
from monocal.neural.arrays.broken_line import LINE_EPSILON, BrokenLineCurve
from monocal.neural.arrays.context_table import Weights
from monocal.neural.arrays.fitted_map import Curve, FittedMap, believed_share
from monocal.neural.fitting.map_inputs import MapInputs
from monocal.neural.fitting.presets import FitSettings
from monocal.neural.neural_calibrator import NeuralCalibrator
from monocal.neural.packages import need
from monocal.neural.umc.arrays import CompiledUmc, KnotsCurve
from monocal.neural.umc.onnx import write_umc

if TYPE_CHECKING:
    from torch import nn

    from monocal.neural.modules.monotone_map import MonotoneMap

Integrand = Literal["knots", "concat"]
Integral = Literal["exact", "clenshaw_curtis", "gauss_legendre", "umnn"]
_AUTHORS_BIAS_SCALE = 1e-4


@dataclass(frozen=True)
class Widths:
    """Layer widths: of the trunk (`knots`), of the integrand and of the rescaling network (`concat`)."""

    trunk: tuple[int, ...]
    integrand: tuple[int, int]
    rescaling: tuple[int, ...]


SIZES: dict[str, Widths] = {
    "default": Widths((128, 128), (50, 50), (200, 200)),
    "small": Widths((32,), (32, 32), (64, 64)),
    "paper": Widths((256, 128, 128), (50, 50), (200, 200)),
}


@final
@dataclass(kw_only=True, eq=False, repr=False)
class UmcCalibrator(NeuralCalibrator):
    r"""Integrates a positive network of score and features, then rescales by the features.

    .. math:: z' = e^{w(x)} \left( \int h(v, x)\,dv + \beta \right) + b(x), \qquad h > 0

    Any increasing curve can be learned, another one for every feature row, and none that decreases: for a fixed
    feature row a higher score never gets a lower probability, also in floating point, because the integral is
    computed exactly and its pieces are non-negative after rounding. Two impressions with different features may
    swap, so AUC can move.

    The integrand h comes in two forms. `knots`: a network of the features emits h at fixed quantiles of the score,
    linear in between. `concat`, the paper's: a network of score and features together.

    References:
        Bai et al. Unconstrained monotonic calibration of predictions in deep ranking systems. SIGIR 2025.

    Takes the arguments of `NeuralArguments` beside its own.

    Arguments:
        integrand: `knots` or `concat`; presets `paper` and `authors` are always `concat`.
        integral: How `concat` is integrated while training: `exact`, or a fixed rule of about 50 nodes, `umnn` being
            that of the authors' code; None means `umnn` with the preset `authors`, else `exact`, which takes less than
            a quarter of the time. Prediction is always exact.
        size: Layer widths, `default`, `small` or `paper`.
        n_knots: Number of knots.
        rescaling: Without it w = b = 0 for every row.
        use_features: Without it one curve of the score for all rows, not rescaled, no shifts.
        umnn: Without it a broken line of the score takes the integral's place: one curve for all rows.

    Example:
        On phones high scores are too high, on desktops they are right.

        >>> import numpy as np
        >>> random = np.random.default_rng(0)
        >>> z, device = random.normal(-1, 1, 20_000), random.integers(1, 3, 20_000)
        >>> truth = np.where(device == 1, 0.5 * z - 0.5, z)
        >>> clicks = random.random(20_000) < 1 / (1 + np.exp(-truth))
        >>> umc = UmcCalibrator().fit(z, clicks, features=device[:, None], scores_are="logit")
        >>> p = umc.predict([1.0, 1.0], features=[[1], [2]])
        >>> bool(p[0] < 0.56 < 0.68 < p[1])
        True
    """

    name = "umc"
    uses_numbers = True
    fits_in_shards = True

    integrand: Integrand = "knots"
    integral: Integral | None = None
    size: Literal["default", "small", "paper"] = "default"
    n_knots: int = 12
    rescaling: bool = True
    use_features: bool = True
    umnn: bool = True

    def _build(self, inputs: MapInputs) -> MonotoneMap:
        from monocal.neural.modules.broken_line import PiecewiseMap
        from monocal.neural.umc.torch_map import UmcMap

        integral = self._integral_in_use()
        if self.size not in SIZES:
            raise UnknownName.among("size", self.size, SIZES)
        if not self.umnn:
            return PiecewiseMap(epsilon=LINE_EPSILON, hard_monotone=True)
        widths = SIZES[self.size if self.preset == "monocal" else "paper"]
        integrand, rows, knots = self._integrand_in_use(), inputs.rows, None
        if integrand == "knots":
            knots = score_knots(rows.logits, self.n_knots, rows.weights, rows.shards)
        return UmcMap(
            inputs.context_width,
            integrand=integrand,
            integral=integral,
            rescaling=self.rescaling and self.use_features,
            identity_start=inputs.warm_start,
            hidden=widths.integrand,
            rescaling_hidden=widths.rescaling,
            trunk=widths.trunk,
            knots=None if knots is None else knots.tolist(),
            n_threads=self._threads(rows),
            bias_scale=0.0 if inputs.warm_start else _AUTHORS_BIAS_SCALE,
            seed=self.seed,
        )

    def _curve(self, weights: Weights) -> Curve:
        if not self.umnn:
            line = BrokenLineCurve(weights, LINE_EPSILON, hard_monotone=True)
            return lambda logits, _context: line(logits)
        if "curve.knots" not in weights:
            need("numba", 'predicting with umc(integrand="concat")', "neural")
        return KnotsCurve(weights)

    def _write_curve(self, graph: GraphBuilder, weights: Weights, logits: str, context: str | None) -> str:
        return write_umc(graph, weights, logits, context)

    def _prepare(self, weights: Weights) -> FittedMap:
        compiled = self.umnn and numba_is_installed() and believed_share(weights) > 0.0
        return CompiledUmc(weights) if compiled else super()._prepare(weights)

    def _row_scorer(self, shift: float) -> RowScorer | None:
        fitted = self._fitted_map()
        return fitted.row_scorer(shift) if isinstance(fitted, CompiledUmc) else None

    def _encoder(self, samples: Samples, sizes: Sequence[int]) -> nn.Module | None:
        return super()._encoder(samples, sizes) if self._looks_at_features() else None

    def _settings(self) -> FitSettings:
        settings = super()._settings()
        return settings if self._looks_at_features() else replace(settings, wide=False)

    def _published_sc_weight(self) -> float:
        return {"paper": 1.0, "authors": 1e-2}.get(self.preset, 0.0)

    def _looks_at_features(self) -> bool:
        return self.use_features and self.umnn

    def _integral_in_use(self) -> Integral:
        if self.integral is None:
            return "umnn" if self.preset == "authors" else "exact"
        if self.integral not in get_args(Integral):
            raise UnknownName.among("integral", self.integral, get_args(Integral))
        return self.integral

    def _integrand_in_use(self) -> Integrand:
        if self.integrand not in get_args(Integrand):
            raise UnknownName.among("integrand", self.integrand, get_args(Integrand))
        if self.preset == "monocal" and self.integrand == "knots":
            return "knots"
        need("numba", 'fitting umc(integrand="concat")', "neural")
        return "concat"
