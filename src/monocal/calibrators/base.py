"""The calibrator contract: fit and predict, with everything around the method itself done once, here."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monocal.calibrators.contract import (
    CalibratorState,
    Parameters,
    RowScorer,
    Tags,
    check_arguments,
    check_both_classes,
    check_features,
    check_partition,
    pack,
    refusal,
    unpack,
)
from monocal.calibrators.curve import BaseCurve
from monocal.calibrators.logistic import recent_intercept
from monocal.calibrators.raw_features import KnownValues, known_ids, learn_values
from monocal.core.dataset import Dataset
from monocal.core.errors import InvalidInput, MonocalWarning
from monocal.core.process import one_blas_thread
from monocal.core.scores import (
    SCORE_EPSILON,
    Floats,
    LogitVariance,
    SamplingRate,
    ScoreSpace,
    check_score_space,
    logit,
    rate_to_use,
    remembered_rate,
    sigmoid,
)
from monocal.ops.numpy_ops import NUMPY
from monocal.ops.operations import Ops, Values

GUARD_SHARE = 0.2
"""The most recent share of rows on which `guard=True` judges the fit."""


@dataclass(kw_only=True, eq=False, repr=False)
class CommonArguments(Parameters):
    """What every method takes, see `Calibrator`; a method adds its own as a keyword-only dataclass."""

    recent_share: float = 0.0
    guard: bool = False


class Calibrator(CommonArguments, ABC):
    r"""Turns `(score, features)` into a probability.

    A subclass is a keyword-only dataclass, whose fields are its arguments (or has an `__init__` that only stores them),
    and writes `_fit`, `_map`, `name` and `class_tags`; everything else is here: validation, score spaces, sampling
    correction, time order, the guard and the recent-intercept refit, prediction, the scorer of a service and the ONNX
    graph, which all run the one `_map`.

    Arguments:
        recent_share: If positive, one scalar shift c is fitted after everything else on this share of the most
            recent rows, so that there :math:`\sum \sigma(z' + c) = \sum y`, and shrunk as far as noise alone could
            explain it (see `recent_intercept`). Order is untouched.
        guard: If true, the method is first fitted without the most recent fifth of the rows and judged there. If
            its log-loss is worse than the uncalibrated score's, the calibrator becomes the identity, warns, and
            sets `fell_back_`.
    """

    name: ClassVar[str]
    class_tags: ClassVar[Tags]
    fits_in_parts: ClassVar[bool] = False
    """Whether a fit can work on rows of which several processes have parts."""
    uses_numbers: ClassVar[bool] = False
    """Whether fields of numbers (`numeric_knots` of `fit`) can be used."""
    field_values_: KnownValues | None = None
    """The raw values of each field that a fit saw; None if it was given ids."""
    _embeddings: Sequence[NDArray[np.float32]] | None = None
    """A ranker's frozen tables, for methods that have a use for them."""

    @property
    def tags(self) -> Tags:
        """What this calibrator, with its present parameters, promises."""
        return self.class_tags

    @property
    def looks_at_time(self) -> bool:
        """Whether a fit with the present parameters tells older rows from newer ones."""
        return self.guard or self._recent_share() > 0.0

    @property
    def base_curve(self) -> BaseCurve | None:
        """The curve along which the ranker's logit enters; None if it enters as it is."""
        kept = vars(self).get("base_")
        return None if kept is None else BaseCurve.of(kept)

    @final
    def fit(
        self,
        scores: ArrayLike,
        labels: ArrayLike,
        *,
        features: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        times: ArrayLike | None = None,
        scores_are: ScoreSpace = "probability",
        sampling_rate: SamplingRate = None,
        embeddings: Sequence[NDArray[np.float32]] | None = None,
        soft_labels: bool = False,
        numeric_knots: Sequence[int] | None = None,
    ) -> Self:
        """Learns the map from scores and features to probabilities.

        Arguments:
            scores: The ranker's score of each row, a probability unless `scores_are="logit"`.
            labels: 0 or 1 per row.
            features: Field ids `(n, F)`, 0 = unseen; or raw values, as a data frame or a list of columns. Accepted and
                unused by feature-blind methods, see `tags`.
            weights: How often each row counts.
            times: When each row happened; without it rows are taken to be in time order, oldest first.
            scores_are: `"probability"` or `"logit"`; never guessed.
            sampling_rate: Share of negatives the ranker was trained on, one number or one per row.
            embeddings: A ranker's frozen table per field, for methods that can use it.
            soft_labels: Labels may be any numbers in [0, 1]: q stands for q positives and 1 − q negatives.
            numeric_knots: Knots per field whose ids stand for numbers (see `monocal.core.fields`), 0 for categories;
                `monocal.fit(numeric=...)` does all of that.
        """
        ids, known = learn_values(features)
        data = Dataset.of(
            scores,
            labels,
            features=ids,
            weights=weights,
            times=times,
            scores_are=scores_are,
            sampling_rate=sampling_rate,
            soft_labels=soft_labels,
        )
        self.fit_data(data, numeric_knots, scores_are=scores_are, sampling_rate=sampling_rate, embeddings=embeddings)
        if known is not None:
            self.field_values_ = known
        return self

    @final
    def fit_data(
        self,
        data: Dataset,
        numeric_knots: Sequence[int] | None = None,
        *,
        scores_are: ScoreSpace = "probability",
        sampling_rate: SamplingRate = None,
        embeddings: Sequence[NDArray[np.float32]] | None = None,
    ) -> Self:
        """Learns from rows that were checked already, be they here or with several processes.

        Every process that has parts of the rows calls this with its own, and ends with the same calibrator.

        Arguments:
            data: Rows in time order, with labels.
            numeric_knots: As for `fit`.
            scores_are: The space of scores that `predict` will be given.
            sampling_rate: The rate that `predict` will assume; it is in the rows' logits already.
            embeddings: As for `fit`.
        """
        data = self._begin_fit(data, numeric_knots)
        self._embeddings = embeddings
        self.scores_are_: ScoreSpace = scores_are
        self.sampling_rate_ = remembered_rate(sampling_rate)
        with one_blas_thread():
            self.fell_back_ = self.guard and self._does_harm(data)
            if not self.fell_back_:
                self._fit(data)
                if self._recent_share() > 0.0:
                    self.recent_shift_ = self._recent_shift(self._through_base_curve(data))
        return self

    @final
    def refresh(
        self,
        scores: ArrayLike,
        labels: ArrayLike,
        *,
        features: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        times: ArrayLike | None = None,
        scores_are: ScoreSpace | None = None,
        sampling_rate: SamplingRate = None,
        soft_labels: bool = False,
    ) -> Self:
        """Returns a calibrator that goes on from this one with newer rows; this one stays as it is.

        Arguments:
            scores: As for `fit`, like the other columns.
            labels: 0 or 1 per row.
            features: As for `fit`, in the same order; ids beyond those of the fit are new values.
            weights: How often each row counts.
            times: When each row happened.
            scores_are: None means as at fit.
            sampling_rate: Share of negatives the ranker was trained on.
            soft_labels: As for `fit`.
        """
        self._check_fitted()
        data = Dataset.of(
            scores,
            labels,
            features=known_ids(features, self.field_values_),
            weights=weights,
            times=times,
            scores_are=scores_are or self.scores_are_,
            sampling_rate=sampling_rate,
            soft_labels=soft_labels,
        )
        check_both_classes(data)
        self._check_fields(data)
        if self.fell_back_:
            raise InvalidInput.of(
                "model", "a fit that fell back to the uncalibrated score", "a calibrator to go on from", "fit it anew"
            )
        if data.w is not None and np.any(data.w == 0.0):
            data = data.take(np.flatnonzero(data.w))
        following = self.cloned().restore(self.state())
        with one_blas_thread():
            following._refresh(self._through_base_curve(data))
        return following

    @final
    def predict(
        self,
        scores: ArrayLike,
        *,
        features: ArrayLike | None = None,
        scores_are: ScoreSpace | None = None,
        sampling_rate: SamplingRate = None,
    ) -> Floats:
        """Returns one calibrated probability per row, float64.

        Arguments:
            scores: Scores in the space of `fit`, unless `scores_are` says otherwise.
            features: As for `fit`, in the same order; ids and values that were not there count as unseen.
            scores_are: None means as at fit.
            sampling_rate: None means the single rate given to fit, if there was one.
        """
        self._check_fitted()
        if scores_are is not None:
            check_score_space(scores_are)
        data = Dataset.of(
            scores,
            features=known_ids(features, self.field_values_),
            scores_are=scores_are or self.scores_are_,
            sampling_rate=rate_to_use(sampling_rate, self.sampling_rate_),
        )
        return self.predict_data(data)

    @final
    def predict_data(self, data: Dataset) -> Floats:
        """Returns probabilities for rows that were validated already (models and the service come in here)."""
        self._check_fitted()
        if self.fell_back_:
            return sigmoid(data.z)
        self._check_fields(data)
        return self._predict(self._through_base_curve(data), self.recent_shift_)

    @final
    def logit_variance(self, data: Dataset) -> LogitVariance:
        """Returns how surely the calibrated logit of each row is known; a method without an answer refuses by name."""
        self._check_fitted()
        if self.fell_back_:
            raise refusal("interval", f"{self.name} that fell back to the uncalibrated score")
        self._check_fields(data)
        return self._logit_variance(self._through_base_curve(data))

    @final
    def row_scorer(self) -> RowScorer:
        """Returns `predict_data` as a function of logits and ids, without what need not be done on every call.

        The numbers are the same to the last bit; only the time of a small request differs.
        """
        self._check_fitted()
        if self.fell_back_:
            return lambda logits, _ids: sigmoid(logits)
        quick, curve = self._row_scorer(self.recent_shift_), self.base_curve
        return quick if curve is None else lambda logits, ids: quick(curve(logits), ids)

    @final
    def probabilities(self, ops: Ops, logits: Values, ids: Values | None) -> Values:
        """Returns the fitted calibrator's probabilities as one map, on arrays or as nodes of a graph.

        Arguments:
            ops: The operations.
            logits: The ranker's logits, after the sampling correction.
            ids: Field ids `(n, F)`; None if there are no fields.
        """
        self._check_fitted()
        if self.fell_back_:
            return ops.sigmoid(logits)
        curve = self.base_curve
        entering = logits if curve is None else curve.map(ops, logits)
        return self._map_shifted(ops, entering, ids, self.recent_shift_)

    @final
    def broken_promise(self) -> str | None:
        """Returns which learned numbers contradict the promise of order; None if all keep it.

        Looks at everything that is stored, where a sweep of scores sees the curves of the rows that it takes.
        """
        self._check_fitted()
        if self.fell_back_ or self.tags.monotone == "none":
            return None
        curve = self.base_curve
        steps = {} if curve is None else {"a slope of base_": curve.slopes}
        for name, numbers in {**steps, **self._never_negative()}.items():
            values = np.asarray(numbers, dtype=np.float64)
            if not np.all(values >= 0.0):
                return f"{name} is {values.min():g}"
        return None

    @final
    def state(self) -> CalibratorState:
        """Returns everything learned as arrays and JSON values."""
        self._check_fitted()
        found = self._state()
        if self.field_values_ is not None:
            found.values["field_values_"] = self.field_values_
        return found

    @final
    def restore(self, state: CalibratorState) -> Self:
        """Takes over what `state` returned, instead of fitting."""
        self._restore(state)
        if "field_values_" in state.values:
            self.field_values_ = state.values["field_values_"]
        return self

    def __repr__(self) -> str:
        changed = self.changed_params()
        kind = type(self).__name__
        return f"{kind}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    # Hooks

    @abstractmethod
    def _fit(self, data: Dataset) -> None:
        """Learns from rows that have labels of both classes and positive weights."""

    def _map(self, _ops: Ops, _logits: Values, _ids: Values | None) -> Values:
        """Returns probabilities (logits, for a `LogitCalibrator`), written over operations.

        It runs on arrays to predict and as nodes of a graph to be exported, so it is made of operations alone.
        """
        raise refusal("onnx", self.name)

    def _predict(self, data: Dataset, shift: float = 0.0) -> Floats:
        """Returns probabilities whose logits are moved by `shift`."""
        found: Floats = self._map_shifted(NUMPY, data.z, data.ids, shift)
        return found

    def _refresh(self, _data: Dataset) -> None:
        """Goes on with newer rows."""
        raise refusal("refresh", self.name)

    def _logit_variance(self, _data: Dataset) -> LogitVariance:
        """Returns how surely every row's calibrated logit is known."""
        raise refusal("interval", self.name)

    def _row_scorer(self, shift: float) -> RowScorer:
        """Returns what scores the rows of a request, with `shift` added to their logits."""
        return lambda logits, ids: self._map_shifted(NUMPY, logits, ids if ids.shape[1] else None, shift)

    def _never_negative(self) -> Mapping[str, ArrayLike]:
        """Returns learned numbers, by name, that are never negative where order is kept."""
        return {}

    def _map_shifted(self, ops: Ops, logits: Values, ids: Values | None, shift: float) -> Values:
        p = self._map(ops, logits, ids)
        if shift == 0.0:
            return p
        # as `shift_probabilities` does it, which keeps the order of probabilities to the last bit
        p = ops.clip(p, SCORE_EPSILON, 1.0 - SCORE_EPSILON)
        return 1.0 / ((1.0 - p) / p * float(np.exp(-shift)) + 1.0)

    def _recent_share(self) -> float:
        """The share of recent rows that sets the last intercept; a hook for methods with presets."""
        return self.recent_share

    def _state(self) -> CalibratorState:
        return pack({name: value for name, value in vars(self).items() if name.endswith("_")})

    def _restore(self, state: CalibratorState) -> None:
        self.__dict__.update(unpack(state))

    # Shared steps

    def _begin_fit(self, data: Dataset, numeric_knots: Sequence[int] | None) -> Dataset:
        """Checks the rows of a fit, forgets what an earlier fit learned, and returns rows that count."""
        numeric = numeric_knots is not None and any(numeric_knots)
        if numeric and self.class_tags.uses_features and not self.uses_numbers:
            raise refusal("numbers", self.name)
        check_both_classes(data)
        check_features(self.name, self.class_tags, data)
        check_arguments(type(self), self.get_params(deep=False))
        check_partition(self.name, self.fits_in_parts, self.looks_at_time, data)
        for learned in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, learned)
        if data.w is not None and np.any(data.w == 0.0):
            data = data.take(np.flatnonzero(data.w))
        self.n_fields_ = 0 if data.ids is None else int(data.ids.shape[1])
        if numeric:
            self.numeric_knots_ = np.array(numeric_knots)
        self.recent_shift_ = 0.0
        return data.with_knots(numeric_knots if numeric else None) if self.class_tags.uses_features else data

    def _through_base_curve(self, data: Dataset) -> Dataset:
        """Returns the rows with their logits as they enter the method."""
        curve = self.base_curve
        return data if curve is None else data.with_z(curve(data.z))

    def _check_fitted(self) -> None:
        if "recent_shift_" not in vars(self):
            from monocal.calibrators.classifier import NotFitted

            raise NotFitted.of(type(self).__name__)

    def _check_fields(self, data: Dataset) -> None:
        check_features(self.name, self.class_tags, data, self.n_fields_)

    def _does_harm(self, data: Dataset) -> bool:
        older, recent = data.split_recent(GUARD_SHARE)
        if not older.has_both_classes:
            return False
        trial = self.cloned().set_params(guard=False, recent_share=0.0)
        trial._embeddings = self._embeddings
        trial.n_fields_, trial.recent_shift_, trial.fell_back_ = self.n_fields_, 0.0, False
        trial._fit(older)
        return is_worse(self.name, recent, trial.predict_data(recent))

    def _recent_shift(self, data: Dataset) -> float:
        _, recent = data.split_recent(self._recent_share())
        if not recent.has_both_classes:
            return 0.0
        p = self._predict(recent)
        return recent_intercept(recent, logit(p))


class LogitCalibrator(Calibrator):
    """A calibrator whose natural output is a logit; nothing is lost to rounding before the last step."""

    def _predict_logits(self, data: Dataset) -> Floats:
        """Returns calibrated logits."""
        found: Floats = self._map(NUMPY, data.z, data.ids)
        return found

    def _predict(self, data: Dataset, shift: float = 0.0) -> Floats:
        return sigmoid(self._predict_logits(data) + shift)

    def _map_shifted(self, ops: Ops, logits: Values, ids: Values | None, shift: float) -> Values:
        found = self._map(ops, logits, ids)
        return ops.sigmoid(found if shift == 0.0 else found + shift)


def is_worse(method: str, recent: Dataset, probabilities: Floats) -> bool:
    """Says, and warns, that probabilities have a larger log-loss than the scores they were made from.

    Arguments:
        method: Its name, for the warning.
        recent: Rows that the fit has not seen.
        probabilities: What it predicts for them.
    """
    before = recent.log_loss(logit(sigmoid(recent.z)))
    after = recent.log_loss(logit(probabilities))
    if after <= before:
        return False
    warnings.warn(
        f"{method}: on the most recent {GUARD_SHARE:.0%} of the rows its log-loss is {after:.5f}, the "
        f"uncalibrated score's {before:.5f}; falling back to the uncalibrated score",
        MonocalWarning,
        stacklevel=4,
    )
    return True
