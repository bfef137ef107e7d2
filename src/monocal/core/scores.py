"""Scores and labels: checked columns of rows, the one place where scores change space, and their log-loss.

Outside, a score is a probability unless the caller says `logit`; inside, it is always a logit.
The space is never guessed from the values.

A ranker trained on a log whose negatives were kept with probability r sees odds that are 1/r too high.
Multiplying the odds by r, which adds ln r to the logit, brings its score back to the full traffic.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, ndtri

from monocal.core.errors import InvalidInput

ScoreSpace = Literal["probability", "logit"]
Floats = NDArray[np.float64]
_SPACES = get_args(ScoreSpace)

SamplingRate = float | ArrayLike | None
"""The share of negatives that a ranker was trained on: one number, or one per row; None means all."""

SCORE_EPSILON = 1e-7
"""Probabilities are clipped to [1e-7, 1 − 1e-7] before the logit, so |logit| ≤ 16.12."""

LOGIT_LIMIT = 40.0
"""Logits beyond ±40 are clipped: float64 probabilities no longer differ there."""

_FINE = 2.0**42
_lowest, _highest = np.minimum.reduce, np.maximum.reduce


def sigmoid(logits: ArrayLike) -> Floats:
    r"""Turns logits into probabilities, :math:`\sigma(z) = 1/(1+e^{-z})`, without overflow.

    Example:
        >>> sigmoid([-1000.0, 0.0, 2.0]).round(4).tolist()
        [0.0, 0.5, 0.8808]
    """
    result: Floats = expit(np.asarray(logits, dtype=np.float64))
    return result


def logit(probabilities: ArrayLike, epsilon: float = SCORE_EPSILON) -> Floats:
    r"""Turns probabilities into logits, :math:`\ln p/(1-p)`, clipping to `[epsilon, 1 - epsilon]` first.

    Example:
        >>> logit([0.5, 0.9, 1.0]).round(4).tolist()
        [0.0, 2.1972, 16.1181]
    """
    p = np.clip(np.asarray(probabilities, dtype=np.float64), epsilon, 1.0 - epsilon)
    result: Floats = np.log(p) - np.log1p(-p)
    return result


def shift_probabilities(probabilities: ArrayLike, shift: float | Floats, epsilon: float = SCORE_EPSILON) -> Floats:
    r"""Adds `shift` to the logits of probabilities, :math:`p' = 1 / (1 + e^{-c}\,(1-p)/p)`, clipping as `logit` does.

    The order of equal or rising probabilities is kept to the last bit: subtraction, division and addition are rounded
    correctly and so never turn two numbers around, which a logarithm and its inverse may.

    Example:
        >>> shift_probabilities([0.2, 0.5], float(np.log(4.0))).round(4).tolist()
        [0.5, 0.8]
    """
    p = np.clip(np.asarray(probabilities, dtype=np.float64), epsilon, 1.0 - epsilon)
    result: Floats = 1.0 / (1.0 + np.exp(-shift) * ((1.0 - p) / p))
    return result


def round_logits(logits: Floats) -> Floats:
    """Rounds logits to multiples of 2⁻⁴² = 2.3e-13.

    Exponentials and logarithms are accurate to about one unit in the last place, so that between neighbouring
    float64 numbers they may step down where they should step up. Between multiples of 2⁻⁴² they differ by far more
    than such an error: a sum of increasing functions of the rounded logit never falls.

    Example:
        >>> rounded = round_logits(np.array([0.5, 0.3]))
        >>> bool(rounded[0] == 0.5), bool(0.0 < abs(rounded[1] - 0.3) < 1.2e-13)
        (True, True)
    """
    return np.rint(logits * _FINE) / _FINE


_WAY_OUT = 'pass scores_are="logit" if these are logits, or map raw scores to logits first'


def to_logits(scores: ArrayLike, scores_are: ScoreSpace, argument: str = "scores", hint: str = _WAY_OUT) -> Floats:
    """Checks scores in their declared space and returns logits.

    Arguments:
        scores: One per row.
        scores_are: Their space.
        argument: What errors call them.
        hint: What a caller with other numbers than probabilities can do.

    Example:
        >>> to_logits([0.2, 0.8], "probability").round(4).tolist()
        [-1.3863, 1.3863]
        >>> to_logits([1.4, 0.2], "probability")
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: scores: got 1.4 at row 0; expected probabilities in [0, 1]. Hint: ...
    """
    check_score_space(scores_are)
    is_probability = scores_are == "probability"
    low, high = (SCORE_EPSILON, 1.0 - SCORE_EPSILON) if is_probability else (-LOGIT_LIMIT, LOGIT_LIMIT)
    if isinstance(scores, list) and len(scores) == 1 and type(scores[0]) is float and low <= scores[0] <= high:
        # a request of one candidate: the same functions take a fifth of the time on one number
        score = scores[0]
        return np.array([np.log(score) - np.log1p(-score) if is_probability else score])
    values = as_float_column(scores, argument)
    if not is_probability:
        return np.clip(values, low, high)
    if values.size and _lowest(values) >= low and _highest(values) <= high:
        return np.log(values) - np.log1p(-values)
    refuse_rows((values < 0.0) | (values > 1.0), values, argument, "probabilities in [0, 1]", hint)
    return logit(values)


def check_score_space(scores_are: str) -> None:
    """Refuses a score space that does not exist."""
    if scores_are not in _SPACES:
        raise InvalidInput.of(
            "scores_are", repr(scores_are), '"probability" or "logit"', "say in which space the scores live"
        )


def as_float_column(values: ArrayLike, argument: str) -> Floats:
    """Returns a one-dimensional float64 array without NaN or infinity, or says which row is bad."""
    try:
        column = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput.of(
            argument, f"values of type {np.asarray(values).dtype}", "numbers", "convert the column to float first"
        ) from None
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise InvalidInput.of(
            argument, f"an array of shape {column.shape}", "one number per row", "pass a one-dimensional array"
        )
    if not np.isfinite(column).all():
        bad = np.flatnonzero(~np.isfinite(column))
        raise InvalidInput.of(
            argument,
            f"{column[bad[0]]} at row {int(bad[0])} ({bad.size} such rows)",
            "finite numbers",
            "drop or fill those rows first",
        )
    return column


def refuse_rows(bad: NDArray[np.bool_], column: Floats, argument: str, expected: str, hint: str) -> None:
    """Names the first row that is bad, if there is one."""
    if bad.any():
        row = int(np.argmax(bad))
        raise InvalidInput.of(argument, f"{column[row]:g} at row {row}", expected, hint)


# Labels and weights

LARGEST_WEIGHT = 1e12
"""The square of the sum of ten million such weights still is a number in float32, in which networks train."""

ASK_FOR_SOFT = "turn the label into 0/1; fits and evaluations take a probability for a label with soft_labels=True"


def check_length(column: NDArray[Any], n_rows: int, argument: str) -> NDArray[Any]:
    """Refuses a column whose length differs from the scores'."""
    if column.ndim == 0 or column.shape[0] != n_rows:
        got = "a single value" if column.ndim == 0 else f"{column.shape[0]} rows"
        raise InvalidInput.of(argument, got, f"{n_rows} rows, as many as scores", "pass columns of the same table")
    return column


def check_labels(labels: ArrayLike, n_rows: int, *, soft: bool = False) -> Floats:
    """Returns 0/1 labels as float64, or names the first row that is neither; soft ones may be anything between."""
    column = check_length(as_float_column(labels, "labels"), n_rows, "labels")
    if soft:
        expected = "numbers in [0, 1] in every row, as soft_labels=True says"
        hint = "divide counts by their number of trials, and pass the trials as weights"
        refuse_rows(~((column >= 0.0) & (column <= 1.0)), column, "labels", expected, hint)
        return column
    refuse_rows((column != 0.0) & (column != 1.0), column, "labels", "0 or 1 in every row", ASK_FOR_SOFT)
    return column


def check_weights(weights: ArrayLike, n_rows: int) -> Floats:
    """Returns weights as float64; they must be ≥ 0, not all zero, and at most `LARGEST_WEIGHT`."""
    column = check_length(as_float_column(weights, "weights"), n_rows, "weights")
    refuse_rows(column < 0.0, column, "weights", "numbers that are zero or positive", "drop the row or use 0")
    most = f"numbers from 0 to {LARGEST_WEIGHT:g}, whose sums do not overflow"
    refuse_rows(
        column > LARGEST_WEIGHT, column, "weights", most, "divide all weights by the largest one, or fix the row"
    )
    if not np.any(column > 0.0):
        raise InvalidInput.of("weights", "only zeros", "at least one positive weight", "leave weights out to use 1")
    return column


# Soft labels: a label of q is q positives and 1 − q negatives


class Pieces(NamedTuple):
    """Rows with soft labels, cut into rows with hard ones.

    Attributes:
        rows: The row that each piece is a part of, rising.
        labels: 0, 1, or −1 where the label is not known, `(pieces, tasks)`.
        shares: How much of its row each piece is; those of one row sum to 1.
    """

    rows: NDArray[np.int64]
    labels: NDArray[np.int8]
    shares: Floats


def has_soft(labels: Floats) -> bool:
    """Whether any label lies strictly between 0 and 1."""
    return bool(np.any((labels > 0.0) & (labels < 1.0)))


def cut_soft(labels: Floats) -> Pieces:
    r"""Cuts every row into pieces with hard labels, so that each task's positives weigh q and its negatives 1 − q.

    With one task a row becomes two pieces. With several, one number u in (0, 1) decides all of them,
    :math:`y_t = [u < q_t]`, so T tasks make at most T + 1 pieces and a child with a smaller q than its parent is
    positive only where the parent is. A row with hard labels is one piece.

    Arguments:
        labels: Numbers in [0, 1] and −1 where not known, `(n, tasks)`.

    Example:
        >>> pieces = cut_soft(np.array([[0.25], [1.0]]))
        >>> pieces.rows.tolist(), pieces.labels[:, 0].tolist(), pieces.shares.tolist()
        ([0, 0, 1], [1, 0, 1], [0.25, 0.75, 1.0])
    """
    n_rows = labels.shape[0]
    ends = np.sort(np.maximum(labels, 0.0), axis=1)
    edges = np.concatenate([np.zeros((n_rows, 1)), ends, np.ones((n_rows, 1))], axis=1)
    widths = np.diff(edges, axis=1)
    rows, places = np.nonzero(widths > 0.0)
    # a piece begins at its left edge, and every label beyond that edge is positive there
    hard = (edges[rows, places][:, None] < labels[rows]).astype(np.int8)
    hard[labels[rows] < 0.0] = -1
    return Pieces(rows, hard, widths[rows, places])


# Sampling


def sampling_shift(sampling_rate: SamplingRate, n_rows: int) -> Floats | float:
    r"""Returns :math:`\ln r`, the shift that turns a down-sampled ranker's logits into full-traffic logits.

    Arguments:
        sampling_rate: The share r in (0, 1] of negatives that the ranker was trained on: one number or
            one per row. None means 1.
        n_rows: How many rows there are, to check a column's length.

    Example:
        A ranker that saw one negative in ten says 0.5 where the truth is 1/11.

        >>> round(float(sigmoid(0.0 + sampling_shift(0.1, 1))), 4) == round(1 / 11, 4)
        True
    """
    if sampling_rate is None:
        return 0.0
    rates = np.asarray(sampling_rate, dtype=np.float64)
    if rates.ndim > 0:
        rates = as_float_column(rates, "sampling_rate")
        if rates.shape[0] != n_rows:
            raise InvalidInput.of(
                "sampling_rate", f"{rates.shape[0]} rates", f"one number or {n_rows} of them", "pass one rate per row"
            )
    bad = rates[~((rates > 0.0) & (rates <= 1.0))]
    if bad.size:
        expected = "the share of negatives kept, in (0, 1]"
        raise InvalidInput.of("sampling_rate", f"{bad[0]:g}", expected, "pass 0.1 if one negative in ten was kept")
    shift: Floats = np.log(rates)
    return float(shift) if rates.ndim == 0 else shift


def remembered_rate(sampling_rate: SamplingRate) -> float | str | None:
    """Returns what predict needs to know about the rate of a fit."""
    if sampling_rate is None:
        return None
    return float(sampling_rate) if np.ndim(sampling_rate) == 0 else "per row"  # type: ignore[arg-type]


def rate_to_use(given: SamplingRate, remembered: float | str | None) -> SamplingRate:
    """Returns the rate of a prediction: the given one, else the single one of the fit."""
    if given is not None:
        return given
    if isinstance(remembered, str):
        raise InvalidInput.of(
            "sampling_rate", None, "one rate per row, as at fit", "pass the rate of every row to predict, too"
        )
    return remembered


# Log-loss


def log_losses(logits: ArrayLike, labels: ArrayLike) -> Floats:
    r"""Returns the cross-entropy of each row, :math:`\ln(1 + e^z) - y z`.

    It equals :math:`-y \ln p - (1-y)\ln(1-p)` with :math:`p = \sigma(z)`, and is finite for every finite logit, where
    the second form takes the logarithm of 0. Labels may be shares between 0 and 1. For probabilities pass `logit(p)`,
    which clips them.

    Example:
        >>> log_losses([0.0, 2.0, -1000.0], [1.0, 0.0, 1.0]).round(4).tolist()
        [0.6931, 2.1269, 1000.0]
    """
    z = np.asarray(logits, dtype=np.float64)
    losses: Floats = np.logaddexp(0.0, z) - np.asarray(labels) * z
    return losses


def log_loss(logits: ArrayLike, labels: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Returns the mean cross-entropy; weight k counts a row k times.

    Example:
        >>> round(log_loss([2.0, 0.0], [1, 0]), 4), round(log_loss([2.0, 0.0], [1, 0], weights=[3, 1]), 4)
        (0.41, 0.2685)
    """
    return float(np.average(log_losses(logits, labels), weights=None if weights is None else np.asarray(weights)))


# Intervals


class LogitVariance(NamedTuple):
    """How surely the calibrated logits of rows are known.

    Attributes:
        parameters: Variance that a row's own parameters leave.
        unexplained: Variance of what the model does not know and the probability is a mean over, the same for all rows.
        slope: Variance of what it does not know and what grows with the distance of the score from its middle.
    """

    parameters: Floats
    unexplained: float
    slope: Floats

    @property
    def variances(self) -> Floats:
        """Of every row's true logit around the calibrated one."""
        return self.parameters + self.unexplained + self.slope


class RowIntervals(NamedTuple):
    """Probabilities with an interval each; `lower <= probabilities <= upper` in every row.

    Of simulated truths .80 to .99 lie inside intervals of 0.9, fewest where errors depend on several columns together.

    Attributes:
        probabilities: The forecast, the same bits as without an interval.
        lower: The lower ends.
        upper: The upper ends.
    """

    probabilities: Floats
    lower: Floats
    upper: Floats


def row_intervals(probabilities: Floats, known: LogitVariance, level: float) -> RowIntervals:
    r"""Returns :math:`\sigma(m \pm q s)` with the normal quantile q of the level, and p where it lies outside.

    A probability that is the mean over logits with variance τ² around m is about
    :math:`\sigma(m / \sqrt{1 + \pi \tau^2 / 8})`, so :math:`m = \mathrm{logit}(p) \sqrt{1 + \pi \tau^2 / 8}`.

    References:
        MacKay. The evidence framework applied to classification networks. 1992.

    Arguments:
        probabilities: The forecast.
        known: s² of every row's logit, and of it the part τ² that is unexplained.
        level: The share of rows whose true probability is meant to lie inside, in (0, 1).

    Example:
        >>> found = row_intervals(np.array([0.1]), LogitVariance(np.array([0.25]), 0.0, np.zeros(1)), 0.9)
        >>> found.lower.round(3).tolist(), found.upper.round(3).tolist()
        ([0.047], [0.202])
    """
    check_level(level)
    z = logit(probabilities) * np.sqrt(1.0 + np.pi * known.unexplained / 8.0)
    reach = float(ndtri(0.5 + 0.5 * level)) * np.sqrt(known.variances)
    lower, upper = sigmoid(z - reach), sigmoid(z + reach)
    # a probability of 0 or 1 has no finite logit, and at a low level the mean may lie beside the middle
    return RowIntervals(probabilities, np.minimum(lower, probabilities), np.maximum(upper, probabilities))


def check_level(level: float) -> None:
    """Refuses a level that is no share."""
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0.0 < level < 1.0:
        raise InvalidInput.of("interval", repr(level), "a number in (0, 1)", "use 0.9 for nine rows in ten")
