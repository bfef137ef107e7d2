"""The four networks that calibrate: what each of them takes, learns and does with a score is declared here."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, final

from monocal.calibrators.contract import Tags
from monocal.compiled.jit import numba_is_installed
from monocal.core.errors import InvalidInput
from monocal.neural import maps
from monocal.neural.base import NeuralCalibrator
from monocal.neural.fitted import CompiledUmc, FittedMap, Weights, network_weight
from monocal.neural.options import FitSettings
from monocal.ops.operations import Ops, Values

UMC_SIZES: dict[str, tuple[int, ...]] = {"default": (128, 128), "small": (32,), "paper": (256, 128, 128)}
"""Widths of UMC's network."""


class KnotsCalibrator(NeuralCalibrator):
    """A network whose map is `maps.umc`: it predicts by compiled loops where numba is installed."""

    @abstractmethod
    def _parts(self, inputs: maps.MapInputs) -> maps.Parts:
        """Returns what `maps.umc` learns."""

    _curve = staticmethod(maps.umc)

    def _prepare(self, weights: Weights) -> FittedMap:
        compiled = numba_is_installed() and network_weight(weights) > 0.0
        return CompiledUmc(weights) if compiled else super()._prepare(weights)


@final
@dataclass(kw_only=True, eq=False, repr=False)
class Umc(KnotsCalibrator):
    r"""Integrates a positive network of score and features, then rescales by the features.

    .. math:: z' = e^{w(x)} \left( \int h(v, x)\,dv + \beta \right) + b(x), \qquad h > 0

    Any increasing curve can be learned, another one for every feature row, and none that decreases: for a fixed
    feature row a higher score never gets a lower probability, also in floating point, because the integral is
    computed exactly and its pieces are non-negative after rounding. Two impressions with different features may
    swap, so AUC can move.

    A network of the features emits h at fixed quantiles of the score, linear in between. The paper's form, one network
    of score and features together, is the method `umc_concat`.

    References:
        Bai et al. Unconstrained monotonic calibration of predictions in deep ranking systems. SIGIR 2025.

    Takes the arguments of `NeuralArguments` beside its own.

    Arguments:
        size: Layer widths, `default`, `small` or `paper`.
        n_knots: Number of knots.

    Example:
        On phones high scores are too high, on desktops they are right.

        >>> import numpy as np
        >>> random = np.random.default_rng(0)
        >>> z, device = random.normal(-1, 1, 20_000), random.integers(1, 3, 20_000)
        >>> truth = np.where(device == 1, 0.5 * z - 0.5, z)
        >>> clicks = random.random(20_000) < 1 / (1 + np.exp(-truth))
        >>> umc = Umc().fit(z, clicks, features=device[:, None], scores_are="logit")
        >>> p = umc.predict([1.0, 1.0], features=[[1], [2]])
        >>> bool(p[0] < 0.56 < 0.68 < p[1])
        True
    """

    name = "umc"

    size: Literal["default", "small", "paper"] = "default"
    n_knots: int = 12

    def _settings(self) -> FitSettings:
        if self.preset in ("paper", "authors"):
            raise InvalidInput.of(
                "preset",
                f"{self.preset!r} for the method 'umc'",
                "'monocal'",
                "the published form is the method 'umc_concat'",
            )
        return super()._settings()

    def _parts(self, inputs: maps.MapInputs) -> maps.Parts:
        return maps.umc_parts(
            inputs.context_width,
            inputs.rows.knots(self.n_knots),
            UMC_SIZES[self.size],
            identity_start=inputs.warm_start,
            bias_scale=0.0 if inputs.warm_start else 1e-4,
        )


@final
@dataclass(kw_only=True, eq=False, repr=False)
class Sbcr(NeuralCalibrator):
    r"""Spreads a probability mass of 1 over equal intervals of the score, by a network of the features.

    .. math:: p' = c_k + (K p - k)(c_{k+1} - c_k), \quad k = \lfloor K p \rfloor, \quad
              c_k = \sum_{j \le k} \mathrm{softmax}(\mathrm{net}(x))_j

    The masses are positive, so the map never decreases in the score for a fixed feature row. Fitted with fields that
    are equal for all items of a query alone, as published, it keeps the order inside every query.

    References:
        Zhang et al. A self-boosted framework for calibrated ranking. KDD 2024.

    Takes the arguments of `NeuralArguments` beside its own.

    Arguments:
        n_intervals: Number of score intervals K.
        hidden: Widths of the network.

    Example:
        >>> import numpy as np
        >>> site = np.tile([1, 2], 2000)
        >>> clicks = (np.arange(4000) // 2 * 0.618034) % 1 < np.where(site == 1, 0.3, 0.1)
        >>> sbcr = Sbcr(l2=0.1).fit(np.full(4000, 0.2), clicks, features=site[:, None])
        >>> sbcr.predict([0.2, 0.2], features=[[1], [2]]).round(1).tolist()
        [0.3, 0.1]
    """

    name = "sbcr"

    n_intervals: int = 100
    hidden: Sequence[int] = (256, 128, 128)

    def _parts(self, inputs: maps.MapInputs) -> maps.Parts:
        return maps.sbcr_parts(inputs.context_width, self.n_intervals, self.hidden, identity_start=inputs.warm_start)

    def _curve(self, ops: Ops, t: Values, context: Values | None) -> Values:
        return maps.sbcr(ops, t, context, n_bins=self.n_intervals)


@final
@dataclass(kw_only=True, eq=False, repr=False)
class Fac(NeuralCalibrator):
    r"""Adds a network of the features to one broken line of the score.

    .. math:: z' = \eta(z) + g(x), \qquad \text{penalty} \sum_k \max(0, b_k - b_{k+1})

    The same curve for every row, only shifted. Scores outside the knots, below 1 % and above 99 % with 100 of them,
    collapse to one value each. Order is encouraged by the penalty and guaranteed only with `hard_monotone`.

    References:
        Pan et al. Field-aware calibration: a simple and empirically strong method for reliable probabilistic
        predictions. WWW 2020.

    Takes the arguments of `NeuralArguments` beside its own.

    Arguments:
        n_knots: Knots at equally spaced probabilities.
        hidden: Widths of the network g.
        hard_monotone: Uses the running maximum of the line's values.

    Example:
        >>> import numpy as np
        >>> site = np.tile([1, 2], 2000)
        >>> clicks = (np.arange(4000) // 2 * 0.618034) % 1 < np.where(site == 1, 0.3, 0.1)
        >>> fac = Fac(l2=0.1).fit(np.full(4000, 0.2), clicks, features=site[:, None])
        >>> fac.predict([0.2, 0.2], features=[[1], [2]]).round(1).tolist()
        [0.3, 0.1]
    """

    name = "fac"
    class_tags = Tags(monotone="none", features="optional", weights_exactly=False)

    n_knots: int = 100
    hidden: Sequence[int] = (200, 200)
    hard_monotone: bool = False

    @property
    def tags(self) -> Tags:
        return replace(self.class_tags, monotone="weak" if self.hard_monotone else "none")

    def _parts(self, inputs: maps.MapInputs) -> maps.Parts:
        return maps.fac_parts(inputs.context_width, self.n_knots, self.hidden, identity_start=inputs.warm_start)

    def _curve(self, ops: Ops, t: Values, context: Values | None) -> Values:
        return maps.fac(ops, t, context, rises=self.hard_monotone)


@final
@dataclass(kw_only=True, eq=False, repr=False)
class Desc(NeuralCalibrator):
    r"""Mixes 48 fixed curves, with weights from one network per field and attention among fields.

    .. math:: p' = v(x, p) \sum_f \alpha_f(x, p) \sum_b \omega_{f,b}(x, p)\, B_b(p), \qquad v \in (0, 1)

    **Not monotone**: the weights see the bucket of the score, so the map jumps at bucket edges, and it can only
    shrink the mixture. `hard_monotone` leaves the bucket out; then weights are fixed for a fixed feature row, and a
    positive mixture of increasing curves increases. Needs at least two fields.

    References:
        Yang et al. Deep ensemble shape calibration: multi-field post-hoc calibration in online advertising. KDD 2024.

    Takes the arguments of `NeuralArguments` beside its own.

    Arguments:
        hidden: Widths of the mixing networks.
        hard_monotone: Leaves the score's bucket out of every weight.

    Example:
        >>> Desc().tags.monotone, Desc(hard_monotone=True).tags.monotone
        ('none', 'weak')
    """

    name = "desc"
    class_tags = Tags(monotone="none", features="required", weights_exactly=False)
    default_epochs = 3

    hidden: Sequence[int] = (200, 200)
    hard_monotone: bool = False

    @property
    def tags(self) -> Tags:
        return replace(self.class_tags, monotone="weak" if self.hard_monotone else "none")

    def _parts(self, inputs: maps.MapInputs) -> maps.Parts:
        if inputs.context_width == 0:
            raise InvalidInput.of("embeddings", '"none"', "vectors, which desc needs", 'use "own" or "ranker"')
        return maps.desc_parts(inputs.n_fields, inputs.n_dimensions, self.hidden, sees_score=not self.hard_monotone)

    def _curve(self, ops: Ops, t: Values, context: Values | None) -> Values:
        assert context is not None
        return maps.desc(ops, t, context)
