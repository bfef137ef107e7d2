"""ConfCalib: deviations of field values, kept as far as their Wilson interval allows, and fused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, final, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar

from monocal.calibrators.base import Calibrator
from monocal.calibrators.contract import Tags
from monocal.core.dataset import Dataset
from monocal.core.errors import InvalidInput
from monocal.core.fields import FieldSchema, Ids
from monocal.core.scores import SCORE_EPSILON, Floats, log_loss, logit, sigmoid
from monocal.ops.operations import Ops, Values

Fusion = Literal["geometric", "logit"]

RATE_EPSILON = 1e-6
"""Mean predictions are clipped to [1e-6, 1 − 1e-6] before they are compared with observed rates."""

_HIGHEST = 1.0 - SCORE_EPSILON
_TINY = 1e-12

_LARGEST_MULTIPLIER, _GRID = 4.0, 17
"""The common multiplier is searched from 0 to four times the number of fields, first on a grid, then between."""


@final
@dataclass(kw_only=True, eq=False, repr=False)
class ConfCalib(Calibrator):
    r"""Multiplies the score by how far each field value's rate deviates from its mean prediction, shrunk by confidence.

    For a value with n rows, observed rate r and mean prediction q, the deviation
    :math:`t = (r - q)/\sqrt{q(1-q)/n}` is capped smoothly, :math:`t' = \lambda \tanh(t/\lambda)`, and q* is the bound
    of the Wilson interval of r at level :math:`|t'|` on q's side. Where few rows could explain the deviation q* stays
    near q; where they cannot it comes close to r. Fields are fused with weights :math:`w_f \ge 0`:

    .. math:: p = s \prod_f \Big(\frac{q^*_{f, x_f}}{q_{f, x_f}}\Big)^{w_f} \quad\text{or}\quad
              p = \sigma\Big(z + \sum_f w_f\,\big(\mathrm{logit}\,q^*_{f, x_f} - \mathrm{logit}\,q_{f, x_f}\big)\Big)

    Both rise with the score for a fixed feature row, because features only scale or shift. The geometric product can
    pass 1 and is cut at 1 − 1e-7, where scores tie; the logit form cannot, and is strict. Unseen values change
    nothing. Fitting counts each field once. There is no released code: this follows public summaries.

    References:
        Zhao et al. Confidence-aware multi-field model calibration. CIKM 2024.
        Wilson. Probable inference, the law of succession, and statistical inference. 1927.

    Arguments:
        fusion: `"geometric"` or `"logit"`, see above.
        cap: λ, in standard errors: the most that is taken off a deviation as possible noise.
        field_weights: `"frce"` makes them proportional to each field's relative calibration error on the fitting rows,
            times one number that minimises the log-loss there, where each row is judged by deviations of the other
            rows; numbers, one per field, are taken as they are.

    Example:
        Both sites are predicted at 0.12 and observed at 0.2; site 1 has 5,000 rows, site 2 has 5.

        >>> features = np.repeat([[1], [2]], [5000, 5], axis=0)
        >>> labels = np.arange(5005) % 5 == 0
        >>> calibrator = ConfCalib(field_weights=(1.0,))
        >>> _ = calibrator.fit(np.full(5005, 0.12), labels, features=features)
        >>> calibrator.predict([0.12, 0.12, 0.12], features=[[1], [2], [9]]).round(4).tolist()
        [0.1891, 0.1216, 0.12]
    """

    name = "confcalib"
    class_tags = Tags(monotone="weak", features="required", reconstruction=True)

    fusion: Fusion = "geometric"
    cap: float = 1.96
    field_weights: Literal["frce"] | Sequence[float] = "frce"

    @property
    def tags(self) -> Tags:
        return replace(self.class_tags, monotone="strict") if self.fusion == "logit" else self.class_tags

    def _fit(self, data: Dataset) -> None:
        assert data.ids is not None
        if self.fusion not in get_args(Fusion):
            raise InvalidInput.of("fusion", repr(self.fusion), '"geometric" or "logit"', "choose one of the two")
        if not (self.cap > 0.0 and np.isfinite(self.cap)):
            raise InvalidInput.of("cap", self.cap, "a number of standard errors above 0", "1.96 is the usual one")
        n_fields = data.ids.shape[1]
        cells = [_sums_per_value(data, field) for field in range(n_fields)]
        tables = [_deviations(_without_unseen(sums), self.cap, self.fusion) for sums in cells]
        self.offsets_: NDArray[np.int64] = FieldSchema.of([len(table) for table in tables]).offsets
        if isinstance(self.field_weights, str):
            self.field_weights_ = self._learned_weights(data, cells)
        else:
            self.field_weights_ = _checked_weights(self.field_weights, n_fields)
        kept = _joined([w * table for w, table in zip(self.field_weights_, tables, strict=True)])
        # factors instead of their logarithms: a product of stored numbers rounds alike in every row
        self.effects_: Floats = np.exp(kept) if self.fusion == "geometric" else kept

    def _learned_weights(self, data: Dataset, cells: list[_ValueSums]) -> Floats:
        if self.field_weights != "frce":
            raise InvalidInput.of(
                "field_weights", repr(self.field_weights), '"frce" or one number per field', "leave it out"
            )
        errors = np.array([_relative_error(sums) for sums in cells])
        total = float(errors.sum())
        shares = errors / total if total > 0.0 else np.full(errors.shape, 1.0 / max(errors.size, 1))
        step = np.zeros(data.n_rows)
        for field, share in enumerate(shares):
            step += share * _deviations(_sums_without_the_row(data, field, cells[field]), self.cap, self.fusion)
        return shares * _best_multiplier(data, step, self.fusion, _LARGEST_MULTIPLIER * len(cells))

    def _never_negative(self) -> Mapping[str, ArrayLike]:
        return {} if self.fusion == "logit" else {"an effect": self.effects_}

    def _map(self, ops: Ops, logits: Values, ids: Values | None) -> Values:
        if self.fusion == "logit":
            return ops.sigmoid(ops.add_shifts(logits, ids, self.effects_, self.offsets_))
        p = ops.sigmoid(logits)
        for field in range(len(self.offsets_) - 1):
            factors = self.effects_[self.offsets_[field] : self.offsets_[field + 1]]
            p = p * ops.look_up(factors, ops.known_ids(ops.column(ids, field), factors.size))
        return ops.minimum(p, _HIGHEST)


def supported_rate(n_rows: Floats, positives: Floats, predicted: Floats, cap: float) -> Floats:
    r"""Returns q*, the rate between mean prediction and observed rate that the rows speak for.

    .. math:: q^* = \frac{r + \frac{t'^2}{2n} - t'\sqrt{\frac{r(1-r)}{n} + \frac{t'^2}{4n^2}}}{1 + \frac{t'^2}{n}}

    It solves :math:`(r - q^*)/\sqrt{q^*(1-q^*)/n} = t'`. With t' = t it is q itself, with t' = 0 it is r. It lies
    inside (0, 1) also where no row, or every row, is positive.

    Arguments:
        n_rows: n > 0 per value.
        positives: How many of them are positive.
        predicted: q, the mean prediction, inside (0, 1).
        cap: λ > 0.

    Example:
        >>> n, positives = np.array([50.0, 50.0]), np.array([10.0, 0.0])
        >>> supported_rate(n, positives, np.array([0.12, 0.12]), 1.96).round(4).tolist()
        [0.1331, 0.0549]
    """
    n = n_rows
    r = positives / n
    _, kept = deviation(n_rows, positives, predicted, cap)
    spread = np.sqrt(np.maximum(r * (1.0 - r), 0.0) / n + (kept / (2.0 * n)) ** 2)
    bound: Floats = (r + kept**2 / (2.0 * n) - kept * spread) / (1.0 + kept**2 / n)
    return bound


def deviation(n_rows: Floats, positives: Floats, predicted: Floats, cap: float) -> tuple[Floats, Floats]:
    r"""Returns t, how many standard errors the observed rate lies above the mean prediction, and the capped t'.

    .. math:: t = \frac{r - q}{\sqrt{q(1-q)/n}}, \qquad t' = \lambda \tanh(t/\lambda)

    Example:
        >>> t, capped = deviation(np.array([50.0, 5000.0]), np.array([10.0, 1000.0]), np.full(2, 0.12), 1.96)
        >>> t.round(2).tolist(), capped.round(2).tolist()
        ([1.74, 17.41], [1.39, 1.96])
    """
    t: Floats = (positives / n_rows - predicted) / np.sqrt(predicted * (1.0 - predicted) / n_rows)
    return t, cap * np.tanh(t / cap)


class _ValueSums(NamedTuple):
    """Weight, summed predictions and summed labels of the rows of each id."""

    weight: Floats
    predicted: Floats
    positive: Floats


def _sums_per_value(data: Dataset, field: int) -> _ValueSums:
    assert data.ids is not None
    ids: Ids = np.asarray(data.ids[:, field])
    weights = data.weights
    columns = weights, weights * sigmoid(data.z), weights * data.labels
    weight, predicted, positive = (np.bincount(ids, column).astype(np.float64) for column in columns)
    return _ValueSums(weight, predicted, positive)


def _without_unseen(cells: _ValueSums) -> _ValueSums:
    return _ValueSums(*(np.concatenate([[0.0], column[1:]]) for column in cells))


def _sums_without_the_row(data: Dataset, field: int, cells: _ValueSums) -> _ValueSums:
    """Returns, for every row, the sums of its value without the row itself, once.

    A deviation points to the labels that it was made of. Judged on these, rare values look as if they deserved a large
    multiplier: of a value with one row, the sums without it are empty and say nothing.
    """
    assert data.ids is not None
    ids: Ids = np.asarray(data.ids[:, field])
    once = np.minimum(data.weights, 1.0)
    known = ids > 0
    n = np.where(known, cells.weight[ids] - once, 0.0)
    n[n < 1e-9 * cells.weight[ids]] = 0.0
    predicted = np.maximum(cells.predicted[ids] - once * sigmoid(data.z), 0.0)
    positive = np.clip(cells.positive[ids] - once * data.labels, 0.0, n)
    return _ValueSums(n, predicted, positive)


def _relative_error(cells: _ValueSums) -> float:
    """What the metric `frce` says of the uncalibrated score: values without a positive label are left out."""
    kept = cells.positive > 0.0
    weight, predicted, positive = (column[kept] for column in cells)
    return float(np.average(np.abs(predicted - positive) / positive, weights=weight))


def _deviations(cells: _ValueSums, cap: float, fusion: Fusion) -> Floats:
    """Returns ln(q* / q), or the difference of their logits, per group of rows; 0 for a group without any."""
    result = np.zeros(cells.weight.shape[0])
    known = np.flatnonzero(cells.weight > 0.0)
    n = cells.weight[known]
    q = np.clip(cells.predicted[known] / n, RATE_EPSILON, 1.0 - RATE_EPSILON)
    # a value with a billion rows and no positive has a bound that rounds to 0
    supported = np.clip(supported_rate(n, cells.positive[known], q, cap), _TINY, 1.0 - _TINY)
    result[known] = np.log(supported / q) if fusion == "geometric" else logit(supported, _TINY) - logit(q, _TINY)
    return result


def _best_multiplier(data: Dataset, step: Floats, fusion: Fusion, largest: float) -> float:
    """Returns the m ≥ 0 with the least log-loss of the score moved by m times `step`."""
    if not np.any(step):
        return 1.0
    p = sigmoid(data.z)

    def loss(multiplier: float) -> float:
        if fusion == "logit":
            moved = data.z + multiplier * step
        else:
            moved = logit(np.minimum(p * np.exp(multiplier * step), _HIGHEST))
        return log_loss(moved, data.labels, data.w)

    grid = np.linspace(0.0, largest, _GRID)
    best = int(np.argmin([loss(float(m)) for m in grid]))
    around = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, _GRID - 1)])
    found = minimize_scalar(loss, bounds=around, method="bounded", options={"xatol": 1e-9 * largest})
    return float(found.x) if found.fun < loss(float(grid[best])) else float(grid[best])


def _checked_weights(given: Sequence[float], n_fields: int) -> Floats:
    weights = np.asarray(given, dtype=np.float64)
    if weights.shape != (n_fields,) or not np.all(np.isfinite(weights)) or np.any(weights < 0.0):
        raise InvalidInput.of(
            "field_weights", list(given), f"{n_fields} numbers ≥ 0, one per field", 'or "frce" to learn them'
        )
    return weights


def _joined(tables: list[Floats]) -> Floats:
    return np.concatenate([np.zeros(0), *tables])
