"""MLPlatt: Platt scaling whose slope and intercept depend on the list that an item stands in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monocal.calibrators.base import LogitCalibrator
from monocal.calibrators.contract import Tags
from monocal.calibrators.logistic import solve_logistic
from monocal.core.dataset import Dataset
from monocal.core.errors import InvalidInput
from monocal.core.fields import FieldSchema, Ids
from monocal.core.scores import Floats
from monocal.lab.reconstructions.mlplatt_solver import solve_lines
from monocal.ops.operations import Ops, Values


@final
@dataclass(kw_only=True, eq=False, repr=False)
class MLPlatt(LogitCalibrator):
    r"""Rescales logits by a slope and an intercept that depend on the list, so that order inside every list is kept.

    .. math:: p = \sigma\big(e^{a(c)} z + b(c)\big), \qquad
              a(c) = a_0 + \sum_f \alpha_{f, c_f}, \qquad b(c) = b_0 + \sum_f \beta_{f, c_f} - e^{a(c)} \bar z

    with c the fields that all items of a list share (query, page, country of the user) and z̄ the mean logit at fit.
    Fields of the item are never looked at. Two items of one list have the same c, and :math:`e^{a(c)} > 0`: the one
    with the higher score gets the higher probability, strictly, whatever their own fields are. Ranking metrics inside
    lists stay the ranker's. The intercept is free, so PCOC on the fitting rows is 1. Unseen values keep the common
    slope and intercept; without fields it is Platt scaling with a positive slope. There is no released code: this
    follows public summaries.

    References:
        MLPlatt. arXiv 2601.08345, 2026.
        Platt. Probabilistic outputs for support vector machines. 1999.

    Arguments:
        query_side_fields: Positions of the fields that are equal for all items of a list; None takes all fields, and
            then order is kept among rows that agree in all of them.
        l2: Penalty :math:`\tfrac{l_2}{2}(\|\alpha\|^2 + \|\beta\|^2)` beside the summed loss.
        tolerance: L-BFGS stops when the loss falls by less than this share.
        max_iterations: L-BFGS steps allowed.

    Example:
        On page 1 scores are twice as steep as they should be. The second field, the item, is not looked at.

        >>> z = np.tile(np.linspace(-2, 2, 2000), 2)
        >>> page = np.repeat([1, 2], 2000)
        >>> labels = (np.arange(4000) * 0.618034) % 1 < 1 / (1 + np.exp(-np.where(page == 1, 0.5, 1.0) * z))
        >>> features = np.column_stack([page, np.arange(4000) % 7 + 1])
        >>> calibrator = MLPlatt(query_side_fields=(0,), l2=0.1)
        >>> _ = calibrator.fit(z, labels, features=features, scores_are="logit")
        >>> calibrator.predict([2.0, 2.0], features=[[1, 3], [2, 5]]).round(2).tolist()
        [0.73, 0.88]
    """

    name = "mlplatt"
    class_tags = Tags(monotone="strict", features="optional", keeps_mean=True, reconstruction=True)

    query_side_fields: Sequence[int] | None = None
    l2: float = 10.0
    tolerance: float = 1e-11
    max_iterations: int = 500

    def _fit(self, data: Dataset) -> None:
        if not self.l2 >= 0.0:
            raise InvalidInput.of("l2", self.l2, "a penalty ≥ 0", "10 is the default, 0 means none")
        self.fields_: NDArray[np.int64] = self._chosen_fields(data)
        context = self._context(data)
        self.offsets_: NDArray[np.int64] = FieldSchema.of_ids(context).offsets
        y, w = data.labels, data.weights
        self.centre_ = float(np.average(data.z, weights=w))
        theta = solve_lines(
            data.z - self.centre_,
            y,
            w,
            context,
            self.offsets_,
            l2=self.l2,
            tolerance=self.tolerance,
            max_iterations=self.max_iterations,
        )
        n_values = int(self.offsets_[-1])
        self.slope_, self.intercept_ = float(np.exp(theta[-2])), float(theta[-1])
        # factors instead of their logarithms: a product of stored numbers rounds alike in every row
        self.factors_: Floats = np.exp(theta[:n_values])
        self.shifts_: Floats = theta[n_values:-2].copy()
        rest = solve_logistic(data, lambda block: np.ones((len(block), 1)), offset=self._predict_logits(data))
        self.intercept_ += float(rest[0])

    def _chosen_fields(self, data: Dataset) -> NDArray[np.int64]:
        n_fields = 0 if data.ids is None else data.ids.shape[1]
        chosen = list(range(n_fields)) if self.query_side_fields is None else list(self.query_side_fields)
        if not all(0 <= field < n_fields for field in chosen) or len(set(chosen)) < len(chosen):
            raise InvalidInput.of(
                "query_side_fields",
                chosen,
                f"different positions among the {n_fields} fields given",
                "count fields from 0, or use None for all",
            )
        return np.array(chosen, dtype=np.int64)

    def _context(self, data: Dataset) -> Ids:
        if data.ids is None:
            return np.zeros((data.n_rows, 0), dtype=np.int32)
        return data.ids[:, self.fields_]

    def _never_negative(self) -> Mapping[str, ArrayLike]:
        return {"slope_": self.slope_, "a factor": self.factors_}

    def _map(self, ops: Ops, logits: Values, ids: Values | None) -> Values:
        slopes, levels = logits * 0.0 + self.slope_, logits * 0.0 + self.intercept_
        if ids is not None and len(self.fields_):
            context = ops.take_columns(ids, self.fields_.tolist())
            for place in range(len(self.fields_)):
                factors = self.factors_[self.offsets_[place] : self.offsets_[place + 1]]
                slopes = slopes * ops.look_up(factors, ops.known_ids(ops.column(context, place), factors.size))
            levels = ops.add_shifts(levels, context, self.shifts_, self.offsets_)
        return slopes * (logits - self.centre_) + levels
