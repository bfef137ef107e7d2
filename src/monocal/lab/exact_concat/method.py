"""UMC as published, found by entry point as the method `umc_concat`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, final, get_args

import numpy as np

from monocal.compiled.jit import LOG_SCALE_LIMIT
from monocal.core.dataset import Dataset
from monocal.core.errors import check_known, need
from monocal.neural.base import NeuralCalibrator
from monocal.neural.fitted import CompiledUmc, FittedMap, Weights, network_weight
from monocal.neural.maps import MapInputs, broken_line, line_parts
from monocal.neural.options import FitSettings
from monocal.ops.onnx_graph import Node
from monocal.ops.onnx_ops import OnnxOps
from monocal.ops.operations import Ops, Values

if TYPE_CHECKING:
    from torch import nn

    from monocal.neural.network import MonotoneMap

Integral = Literal["exact", "clenshaw_curtis", "gauss_legendre", "umnn"]
_AUTHORS_BIAS_SCALE = 1e-4

SIZES: dict[str, tuple[tuple[int, int], tuple[int, ...]]] = {
    "default": ((50, 50), (200, 200)),
    "small": ((32, 32), (64, 64)),
    "paper": ((50, 50), (200, 200)),
}
"""Widths of the integrand and of the rescaling network."""


@final
@dataclass(kw_only=True, eq=False, repr=False)
class UmcConcat(NeuralCalibrator):
    r"""Integrates a positive network of score and features together, as UMC was published, then rescales.

    .. math:: z' = e^{w(x)} \left( \int_0^z h(v, x)\,dv + \beta \right) + b(x), \qquad h > 0

    With the presets `paper` and `authors` it is trained as the publication and its code do, with the smooth calibration
    loss. The exact integral never decreases in the score for a fixed feature row. The method `umc` differs by its
    derivative at knots; it is better on every log tried, and twice as fast.

    References:
        Bai et al. Unconstrained monotonic calibration of predictions in deep ranking systems. SIGIR 2025.

    Takes the arguments of `NeuralArguments` beside its own.

    Arguments:
        integral: How it is integrated while training: `exact`, or a fixed rule of about 50 nodes, `umnn` being that of
            the authors' code; None means `umnn` with the preset `authors`, else `exact`, which takes less than a
            quarter of the time. Prediction is always exact.
        size: Layer widths, `default`, `small` or `paper`.
        rescaling: Without it w = b = 0 for every row.
        use_features: Without it one curve of the score for all rows, not rescaled, no shifts.
        umnn: Without it a broken line of the score takes the integral's place: one curve for all rows.

    Example:
        >>> UmcConcat(preset="paper").tags.monotone
        'weak'
    """

    name = "umc_concat"

    integral: Integral | None = None
    size: Literal["default", "small", "paper"] = "default"
    rescaling: bool = True
    use_features: bool = True
    umnn: bool = True

    def _build(self, inputs: MapInputs) -> MonotoneMap:
        from monocal.lab.exact_concat.torch_map import ConcatMap
        from monocal.neural.network import MonotoneMap

        integral = self._integral_in_use()
        check_known("size", self.size, SIZES)
        if not self.umnn:
            return MonotoneMap(line_parts(100), self._curve)
        need("numba", "fitting 'umc_concat'", "neural")
        integrand, rescaling = SIZES[self.size if self.preset == "monocal" else "paper"]
        return ConcatMap(
            inputs.context_width,
            integral=integral,
            rescaling=self.rescaling and self.use_features,
            identity_start=inputs.warm_start,
            hidden=integrand,
            rescaling_hidden=rescaling,
            n_threads=self._threads(inputs.rows),
            bias_scale=0.0 if inputs.warm_start else _AUTHORS_BIAS_SCALE,
            seed=self.seed,
        )

    def _curve(self, ops: Ops, t: Values, context: Values | None) -> Values:
        if not self.umnn:
            return broken_line(ops, t, rises=True)
        assert isinstance(ops, OnnxOps)  # on arrays the compiled loops predict
        return curve_in_graph(ops, t, context, self.rescaling and self.use_features)

    def _prepare(self, weights: Weights) -> FittedMap:
        if not self.umnn or network_weight(weights) == 0.0:
            return super()._prepare(weights)
        need("numba", "predicting with 'umc_concat'", "neural")
        from monocal.lab.exact_concat.predictor import concat_predictor

        return CompiledUmc(weights, concat_predictor)

    def _encoder(self, rows: Dataset) -> nn.Module | None:
        return super()._encoder(rows) if self._looks_at_features() else None

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
        check_known("integral", self.integral, get_args(Integral))
        return self.integral


def curve_in_graph(ops: OnnxOps, t: Node, context: Node | None, rescaling: bool) -> Node:
    """Writes the fitted map as a graph: offsets and rescaling by layers, the integral at fixed nodes."""
    beta = float(ops.learned("beta")[0])
    n_shape = len(ops.learned("integrand.slopes"))
    scaling = None
    if context is None:
        raw = ops.rows(ops.learned("constants"), t)
        offsets = ops.columns(raw, 0, n_shape)
        scaling = ops.columns(raw, n_shape, n_shape + 2) if rescaling else None
    else:
        weights, biases = ops.learned("offsets.weight"), ops.learned("offsets.bias")
        offsets = ops.product(context, weights.T.astype(np.float64)) + biases
        scaling = ops.dense("rescaler", context) if rescaling else None
    area = node_integral(ops, t, offsets)
    if scaling is None:
        return area + beta
    scale = ops.exp(ops.clip(ops.column(scaling, 0), -LOG_SCALE_LIMIT, LOG_SCALE_LIMIT))
    return scale * area + (scale * beta + ops.column(scaling, 1))


def node_integral(ops: OnnxOps, t: Node, offsets: Node) -> Node:
    r"""Writes the integral from 0 to every logit by Gauss-Legendre at `graph.n_nodes` places.

    .. math:: U(T) \approx \frac T2 \sum_i \omega_i\, h\!\left(\frac{1 + \xi_i}{2} T\right), \qquad
              h(t) = 1 + \mathrm{ELU}(w_3 \cdot \mathrm{relu}(W_2\,\mathrm{relu}(w t + a) + b_2) + b_3)

    The integrand has kinks, so the error falls with the square of the number of nodes, and order is kept only as far
    as it; `predict` uses the closed form. The features enter through the offsets a, once per row and not per node.
    Hidden layers are float32, as in `predict`, because there are n_nodes of them per row.
    """
    graph = ops.graph
    graph.is_exact = False
    nodes, shares = np.polynomial.legendre.leggauss(graph.n_nodes)

    def single(values: Any) -> Node:
        return graph.constant(values, np.float32)

    def learned(name: str) -> Any:
        return ops.learned(f"integrand.{name}")

    slopes = np.outer((nodes + 1.0) / 2.0, learned("slopes").astype(np.float64))
    limits = graph.apply("Unsqueeze", ops.cast(t, np.float32), places=[1, 2])
    kept = graph.apply("Unsqueeze", ops.cast(offsets, np.float32), places=[1])
    rows = graph.apply("Relu", limits * single(slopes[None]) + kept)
    rows = graph.apply("MatMul", rows, single(learned("second.weight").T))
    rows = graph.apply("Relu", rows + single(learned("second.bias")))
    last = graph.apply("MatMul", rows, single(learned("third.weight").T))
    raw = ops.cast(graph.apply("Squeeze", last, places=[2]), np.float64) + float(learned("third.bias")[0])
    # the runtime's own exponential: a rule at moving nodes promises no order that a slower one could keep
    heights = graph.apply("Exp", ops.minimum(raw, 0.0)) + ops.maximum(raw, 0.0)
    return t * graph.apply("ReduceSum", heights * (shares / 2.0), places=[1], keepdims=0)
