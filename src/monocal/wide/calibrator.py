"""The six-line model a practitioner writes by hand, done well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monocal.calibrators.base import LogitCalibrator
from monocal.calibrators.contract import Tags
from monocal.calibrators.curve import Base
from monocal.carry_over.curve import learn_score_curve
from monocal.carry_over.shrinkage import Carry, check_carry, fit_effects, learn_carry_over
from monocal.core.dataset import Dataset
from monocal.core.fields import FieldSchema
from monocal.core.scores import Floats, LogitVariance
from monocal.ops.operations import Ops, Values
from monocal.wide.intervals import logit_variances, posterior_at_fit, unexplained_at_fit
from monocal.wide.refresh import centred, refresh_effects, restore
from monocal.wide.solver import Penalty, Search


@final
@dataclass(kw_only=True, eq=False, repr=False)
class WideLogistic(LogitCalibrator):
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
        carry: How much of each field's effect is carried into the future: `none` carries all of it; `auto` learns one
            share in [0, 1] per field on rows later than those its effect was learned from (see `learn_carry_over`); a
            mapping from a field's position (by name through `monocal.fit`) to a share fixes some and learns the others.
            The shares are in `carry_`.
        base: How the ranker's logit enters. `slope` takes it as it is; `curve` first sends it along a broken line g
            that always rises, learned beside the shifts (see `fit_curve`): p = σ(a g(z) + c + …). `auto` weighs bends
            by the share that held on later rows (see `learn_score_curve`), which needs `carry` to look at them.
        tolerance: L-BFGS stops when the loss falls by less than this share.
        max_iterations: L-BFGS steps allowed.

    Example:
        Site 1 clicks three times as often as site 2 at the same score.

        >>> features = np.array([[1], [2]] * 400)
        >>> labels = (np.arange(800) // 2 * 0.618034) % 1 < np.array([0.3, 0.1] * 400)
        >>> calibrator = WideLogistic(l2=0.1).fit(np.full(800, 0.2), labels, features=features)
        >>> calibrator.predict([0.2, 0.2], features=[[1], [2]]).round(2).tolist()
        [0.3, 0.1]
    """

    name = "wide_logistic"
    fits_in_parts = True
    uses_numbers = True
    class_tags = Tags(monotone="strict", features="optional", keeps_mean=True)

    l2: Penalty = 10.0
    carry: Carry = "none"
    base: Base = "auto"
    tolerance: float = 1e-9
    max_iterations: int = 200

    def _fit(self, data: Dataset) -> None:
        check_carry(self.carry, len(data.fields))
        search = Search(self.tolerance, self.max_iterations)
        carry_over = learn_carry_over(data, self.carry, self.l2) if self._carries and len(data.fields) else None
        curve = learn_score_curve(data, carry_over, self.base, self.l2, search)
        if curve is not None:
            self.base_, data = curve.as_arrays(), curve.applied(data)
        fitted = fit_effects(data, carry_over, self.l2, search)
        found = fitted.forecast(data)
        self.slope_, self.intercept_ = found.slope, found.intercept
        self.shifts_: Floats = found.shifts
        self.offsets_: NDArray[np.int64] = data.fields.offsets
        logits, shares = self._predict_logits(data), None
        if carry_over is not None:
            self.carry_ = carry_over.as_arrays(data.fields)
            shares = self.carry_["share"]
        self.posterior_ = posterior_at_fit(logits, data, fitted.penalties)
        (self.unexplained_,) = unexplained_at_fit([logits], data, self.posterior_, shares)

    @property
    def _carries(self) -> bool:
        return self.carry != "none"

    @property
    def _schema(self) -> FieldSchema:
        return FieldSchema.of_offsets(self.offsets_, vars(self).get("numeric_knots_"))

    @property
    def looks_at_time(self) -> bool:
        return self._carries or super().looks_at_time

    def _refresh(self, data: Dataset) -> None:
        known = restore(self.posterior_, data, self.shifts_, self._schema)
        line = self.slope_ * data.z + self.intercept_ + self.recent_shift_
        columns, centre = centred(data.z, self._predict_logits(data), data.weights)
        found = refresh_effects(line, data, columns, known)
        level, slope = (float(number) for number in found.single)
        slope = max(slope, -self.slope_)
        self.slope_ += slope
        self.intercept_ += level - slope * centre
        self.shifts_, self.offsets_ = found.shifts, known.schema.offsets
        self.posterior_ = found.posterior.as_arrays()
        self.last_update_: dict[str, Any] = found.facts(known, "slope")

    def _logit_variance(self, data: Dataset) -> LogitVariance:
        shares = vars(self).get("carry_", {}).get("share")
        return logit_variances(data, self._schema, self.posterior_, self.unexplained_, shares)

    @property
    def tags(self) -> Tags:
        # blocks and origins fall between rows, so a row that counts twice is not quite two rows
        return replace(self.class_tags, weights_exactly=False) if self._carries else self.class_tags

    def _never_negative(self) -> Mapping[str, ArrayLike]:
        return {"slope_": self.slope_}

    def _map(self, ops: Ops, logits: Values, ids: Values | None) -> Values:
        line = logits * self.slope_ + self.intercept_
        return line if ids is None else ops.add_shifts(line, ids, self.shifts_, self.offsets_)
