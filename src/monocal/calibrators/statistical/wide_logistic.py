"""The six-line model a practitioner writes by hand, done well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monocal.calibrators.base import LogitCalibrator
from monocal.calibrators.base_curve import Base
from monocal.calibrators.contract import RowScorer, Tags
from monocal.calibrators.statistical.carry_over import (
    Carry,
    ScoreCurve,
    block_level,
    check_carry,
    fit_carried,
    learn_carry_over,
    learn_score_curve,
    score_curve_beside,
    with_left_out,
)
from monocal.calibrators.statistical.field_shrinkage import Penalty, check_penalty, solve_shrunk
from monocal.calibrators.statistical.refreshing import centred, known_at_fit, refresh_effects, resumed
from monocal.calibrators.statistical.row_variance import (
    row_variances,
    spread_at_fit,
    spread_or_refused,
    value_variances,
)
from monocal.calibrators.statistical.wide_solver import solve_wide
from monocal.core.row_intervals import KnownLogits
from monocal.core.samples import Ids, Samples
from monocal.core.spaces import Floats, sigmoid
from monocal.ops.numpy_ops import add_shifts
from monocal.ops.operations import Ops, Values


@final
class WideLogisticCalibrator(LogitCalibrator):
    r"""Adds one shift per field value to the rescaled logit.

    .. math:: p = \sigma\Big(a z + c + \sum_f \delta_{f, x_f}\Big), \qquad a \ge 0

    One-hot logistic regression with the score as a column: the bar for everything that looks at features.
    Strictly increasing in the score for a fixed feature row when a > 0, because features only shift. The free
    intercept makes PCOC 1 on the fitting rows. Unseen values get no shift. Without features it is Platt scaling.
    A field of numbers has a continuous shift, straight between its knots, whose second differences are penalised
    (see `smooth_basis`); beyond the outer knots it is constant.

    Arguments:
        l2: Penalty :math:`\tfrac{l_2}{2}\|\delta\|^2` beside the summed loss; 10 is scikit-learn's C = 0.1; `auto`
            learns one per field from the scatter of its shifts.
        carry: How much of each field's effect is carried into the future: `none` believes all of it; `auto` learns one
            share in [0, 1] per field on rows later than those its effect was learned from (see `learn_carry_over`),
            and the recent level by what earlier levels held; a mapping from a field's position (by name through
            `monocal.fit`) to a share fixes some and learns the others. What was believed is in `carry_`.
        base: How the ranker's logit enters. `slope` takes it as it is; `curve` first sends it along a broken line g
            that always rises, learned beside the shifts (see `fit_curve`): p = σ(a g(z) + c + …). `auto` believes bends
            to the share that held on later rows (see `learn_score_curve`), which needs `carry` to look at them.
        tolerance: L-BFGS stops when the loss falls by less than this share.
        max_iterations: L-BFGS steps allowed.

    Example:
        Site 1 clicks three times as often as site 2 at the same score.

        >>> features = np.array([[1], [2]] * 400)
        >>> labels = (np.arange(800) // 2 * 0.618034) % 1 < np.array([0.3, 0.1] * 400)
        >>> calibrator = WideLogisticCalibrator(l2=0.1).fit(np.full(800, 0.2), labels, features=features)
        >>> calibrator.predict([0.2, 0.2], features=[[1], [2]]).round(2).tolist()
        [0.3, 0.1]
    """

    name = "wide_logistic"
    fits_in_shards = True
    uses_numbers = True
    class_tags = Tags(monotone="strict", features="optional", keeps_mean=True)

    def __init__(
        self,
        *,
        l2: Penalty = 10.0,
        carry: Carry = "none",
        base: Base = "auto",
        tolerance: float = 1e-9,
        max_iterations: int = 200,
        recent_share: float = 0.0,
        guard: bool = False,
    ) -> None:
        super().__init__(recent_share=recent_share, guard=guard)
        self.l2 = l2
        self.carry = carry
        self.base = base
        self.tolerance = tolerance
        self.max_iterations = max_iterations

    def _fit(self, samples: Samples) -> None:
        check_penalty(self.l2)
        features = _features_or_none_at_all(samples)
        sizes = samples.in_shards.most(samples.field_sizes())
        check_carry(self.carry, len(sizes))
        if self._carries and len(sizes):
            penalties = self._fit_carried(samples, sizes)
        else:
            penalties = self._fit_believing(samples, features, sizes)
        samples = self._through_base_curve(samples)
        logits = self._predict_logits(samples)
        self.posterior_ = known_at_fit(logits, samples, features, self.offsets_, penalties)
        shares = vars(self).get("carry_", {}).get("share")
        self.spread_ = spread_at_fit(logits, samples, self.posterior_, self.offsets_, shares)

    def _fit_believing(self, samples: Samples, features: Ids, sizes: NDArray[np.int64]) -> Floats:
        penalties = self._fit_all(samples, features, sizes)
        if self.base == "curve":
            beside = add_shifts(np.zeros(samples.n_rows), features, self.shifts_, self.offsets_)
            samples = self._along(score_curve_beside(samples, beside), samples)
            penalties = self._fit_all(samples, features, sizes)
        return penalties

    def _along(self, curve: ScoreCurve | None, samples: Samples) -> Samples:
        """Keeps the curve and returns the rows with their logits along it."""
        if curve is None:
            return samples
        self.base_ = curve.as_arrays()
        return curve.applied(samples)

    def _fit_all(self, samples: Samples, features: Ids, sizes: NDArray[np.int64]) -> Floats:
        rows = samples.logits, samples.known_labels, samples.weights, features, sizes
        options: dict[str, Any] = {"tolerance": self.tolerance, "max_iterations": self.max_iterations}
        options |= {"shards": samples.shards, "n_knots": samples.numeric_knots}
        if self.l2 == "auto":
            found, penalties = solve_shrunk(*rows, **options)
        else:
            penalties = np.full(len(sizes), float(self.l2))
            found = solve_wide(*rows, l2=self.l2, **options)
        self.slope_, self.intercept_ = found.slope, found.intercept
        self.shifts_: Floats = found.shifts
        self.offsets_: NDArray[np.int64] = found.offsets
        return penalties

    @property
    def _carries(self) -> bool:
        return self.carry != "none"

    def _looks_at_time(self) -> bool:
        return self._carries or super()._looks_at_time()

    def _fit_carried(self, samples: Samples, sizes: NDArray[np.int64]) -> Floats:
        l2 = None if self.l2 == "auto" else float(self.l2)
        believed = learn_carry_over(samples, sizes, self.carry, l2)
        samples = self._along(learn_score_curve(samples, sizes, believed, self.base, l2), samples)
        fitted = fit_carried(
            samples, sizes, believed, l2=l2, tolerance=self.tolerance, max_iterations=self.max_iterations
        )
        found = fitted.forecast(samples, sizes, believed)
        self.slope_, self.intercept_ = found.slope, found.intercept
        self.shifts_, self.offsets_ = found.shifts, found.offsets
        self.carry_ = {"field": np.arange(len(sizes)), **believed.as_arrays(sizes, samples.numeric_knots)}
        in_place = with_left_out(self._predict_logits(samples), samples, sizes, fitted.shifts, believed)
        self._level = block_level(in_place, samples, believed.blocks)
        return fitted.penalties

    def _refresh(self, samples: Samples) -> None:
        samples = replace(samples, features=_features_or_none_at_all(samples))
        known, shifts, offsets = resumed(vars(self).get("posterior_"), self.name, samples, self.shifts_, self.offsets_)
        line = self.slope_ * samples.logits + self.intercept_ + self.recent_shift_
        columns, centre = centred(samples.logits, self._predict_logits(samples), samples.weights_or_ones)
        found = refresh_effects(line, samples, columns, shifts, offsets, known)
        level, slope = (float(number) for number in found.single)
        slope = max(slope, -self.slope_)
        self.slope_ += slope
        self.intercept_ += level - slope * centre
        self.shifts_, self.offsets_ = found.shifts, offsets
        self.posterior_ = found.posterior.as_arrays()
        self.moved_ = found.facts(shifts, offsets, "slope")

    def _known_logits(self, samples: Samples) -> KnownLogits:
        spread = spread_or_refused(vars(self).get("spread_"), self.name)
        shares = vars(self).get("carry_", {}).get("share")
        variances = value_variances(self.posterior_, self.offsets_, shares, vars(self).get("numeric_knots_"))
        features = _features_or_none_at_all(samples)
        return row_variances(samples, features, variances, self.offsets_, self.posterior_, spread)

    def _recent_shift(self, samples: Samples) -> float:
        return self._level if "carry_" in vars(self) else super()._recent_shift(samples)

    def _tags(self) -> Tags:
        # blocks and cuts fall between rows, so a row that counts twice is not quite two rows
        return replace(self.class_tags, weights_exactly=False) if self._carries else self.class_tags

    def _never_negative(self) -> Mapping[str, ArrayLike]:
        return {"slope_": self.slope_}

    def _map(self, ops: Ops, logits: Values, ids: Values | None) -> Values:
        line = logits * self.slope_ + self.intercept_
        return line if ids is None else ops.add_shifts(line, ids, self.shifts_, self.offsets_)

    def _row_scorer(self, shift: float) -> RowScorer:
        slope, intercept = self.slope_, self.intercept_
        sizes, starts, table = _with_a_last_place_for_strangers(self.shifts_, self.offsets_)

        def score(logits: Floats, ids: Ids) -> Floats:
            places = np.minimum(ids.T, sizes) + starts
            terms = np.empty((sizes.shape[0] + 1, logits.shape[0]))
            base = logits * slope
            base += intercept
            terms[0] = base
            table.take(places, out=terms[1:], mode="clip")
            # accumulate adds one field after the other, as add_shifts does; a plain sum would round otherwise
            total: Floats = np.add.accumulate(terms, axis=0, out=terms)[-1]
            return sigmoid(total + shift)

        return score


def _with_a_last_place_for_strangers(
    shifts: Floats, offsets: NDArray[np.int64]
) -> tuple[Ids, NDArray[np.int64], Floats]:
    """Returns sizes, starts and shifts with one more id per field, which stands for all ids beyond the table."""
    sizes = np.diff(offsets)
    table = np.insert(shifts, offsets[1:], shifts[offsets[:-1]])
    starts = offsets[:-1] + np.arange(sizes.size)
    return sizes[:, None].astype(np.int32), starts[:, None], table


def _features_or_none_at_all(samples: Samples) -> Ids:
    return samples.features if samples.features is not None else np.zeros((samples.n_rows, 0), dtype=np.int32)
