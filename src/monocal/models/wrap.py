"""Any ranker with its calibrator, as one scikit-learn classifier."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MetaEstimatorMixin, _clone_parametrized, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import StratifiedGroupKFold, check_cv
from sklearn.utils import _safe_indexing, check_array, get_tags
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _raise_for_params,
    _routing_enabled,
    process_routing,
)
from sklearn.utils.validation import (
    _check_sample_weight,
    _num_samples,
    check_is_fitted,
    has_fit_parameter,
    validate_data,
)

from monocal.calibrators import Calibrator, calibrator
from monocal.calibrators.classifier import TwoClasses
from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.scores import Floats
from monocal.models.fit import DEFAULT_METHOD, fit
from monocal.models.model import Model
from monocal.models.rankers import (
    ScoreFrom,
    fit_lists,
    learns_from_lists,
    numbered_groups,
    own_columns,
    ranker_scores,
)

PREFIT = "prefit"

_SCORE, _LABEL, _WEIGHT = "score", "label", "weight"


@final
class Calibrated(MetaEstimatorMixin, TwoClasses):  # type: ignore[misc]
    """A ranker whose scores are turned into probabilities by a calibrator.

    The calibrator must not learn from scores of rows that the ranker was trained on: there the ranker looks better
    than it is. So either the ranker is already trained, on other rows, and stays as it is (`cv="prefit"`); or every
    row is scored by a copy of the ranker that was trained without its fold, one calibrator learns from these scores,
    and the ranker is trained once more on all rows.

    Arguments:
        estimator: A scikit-learn classifier, or a ranker of LightGBM, XGBoost or CatBoost.
        method: The calibrator: a name of `monocal.methods()`, or one with its arguments, made by `monocal.calibrator`.
        score_from: Which answer of the ranker is its score: `auto`, `raw`, `decision_function`, `predict_proba` or
            `predict`; see `monocal.models.rankers`.
        fields: Categorical columns of X that the calibrator may use: names in a data frame, places in an array.
        cv: `"prefit"`, a number of folds, or a splitter of scikit-learn.

    Weights and lists follow scikit-learn's metadata routing. Without it (the default) `sample_weight` goes to the
    calibrator, and to a ranker that takes it; with `sklearn.set_config(enable_metadata_routing=True)` a ranker gets
    what its own `set_fit_request` asks for. Fields that hold text reach a ranker that asks for them alone: one that
    knows their names, encodes categories or chooses columns itself.

    Attributes:
        estimator_: The ranker that scores.
        model_: The calibrator with its vocabulary: `model_.save(folder)` makes a model that can be served, with the
            ranker's score as the column `score`.
        classes_: Both labels; probabilities are those of the second.

    Example:
        >>> from sklearn.datasets import make_classification
        >>> from sklearn.naive_bayes import GaussianNB
        >>> X, y = make_classification(4_000, n_informative=2, n_redundant=10, random_state=0)
        >>> train, test = slice(0, 2_000), slice(2_000, None)
        >>> sure = GaussianNB().fit(X[train], y[train])  # counts what columns have in common several times
        >>> honest = Calibrated(GaussianNB(), method="isotonic").fit(X[train], y[train])
        >>> def log_loss(p):
        ...     return -np.mean(np.log(np.where(y[test] == 1, p, 1 - p)))
        >>> log_loss(honest.predict_proba(X[test])[:, 1]) < log_loss(sure.predict_proba(X[test])[:, 1])
        np.True_
    """

    def __init__(
        self,
        estimator: Any,
        *,
        method: str | Calibrator = DEFAULT_METHOD,
        score_from: ScoreFrom = "auto",
        fields: Sequence[str | int] = (),
        cv: Any = 5,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.score_from = score_from
        self.fields = fields
        self.cv = cv

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Self:
        """Learns the calibrator, and with folds the ranker.

        Arguments:
            X: Rows as the ranker takes them, with the columns of `fields`, oldest first.
            y: Two labels; the second in sorted order is the event.
            sample_weight: How often each row counts.
            groups: The list of each row (a query, a session). Rows of a list share their fold, and a ranker that learns
                from lists (LGBMRanker, XGBRanker, CatBoostRanker) is given them.
            fit_params: What `set_fit_request` of the ranker asks for, where metadata routing is enabled.
        """
        _raise_for_params(fit_params, self, "fit")
        if isinstance(self.cv, str) and not self._is_prefit():
            raise InvalidInput.of("cv", repr(self.cv), "'prefit', a number of folds or a splitter", "use cv=5")
        method = calibrator(self.method) if isinstance(self.method, str) else self.method
        X = _rows(X)
        validate_data(self, X, skip_check_array=True)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X)
        labels = self._learn_classes(y, _num_samples(X), weights)
        fields = self._fields_of(X)
        if self._is_prefit():
            self.estimator_ = self.estimator
            try:
                scores, space = self._scores(self.estimator_, X)
            except NotFittedError as error:
                got = f"{type(self.estimator).__name__} that is not fitted yet"
                hint = "fit it first on other rows, or let folds do both with cv=5"
                raise NotFittedError(str(InvalidInput.of("estimator", got, "a fitted ranker", hint))) from error
        else:
            lists = numbered_groups(self.estimator, groups, labels.shape[0])
            given = self._of_ranker(weights, fit_params)
            scores, space = self._cross_fitted(X, labels, lists, given)
            self.estimator_ = self._trained(X, labels, lists, given)
        columns: dict[str, Any] = {_SCORE: scores, _LABEL: labels.astype(np.int8), **fields}
        if weights is not None:
            columns[_WEIGHT] = weights
        self.model_: Model = fit(
            columns,
            method=method,
            score=_SCORE,
            label=_LABEL,
            fields=self._field_names(),
            weight=None if weights is None else _WEIGHT,
            scores_are=space,
        )
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Returns the probabilities of both classes `(n, 2)`.

        Arguments:
            X: Rows with the columns of `fit`.
        """
        check_is_fitted(self, "model_")
        X = _rows(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        scores, _ = self._scores(self.estimator_, X)
        p = self.model_.predict({_SCORE: scores, **self._fields_of(X)})
        return np.column_stack([1.0 - p, p])

    def get_metadata_routing(self) -> MetadataRouter:
        """Returns which of `fit`'s metadata the ranker's own `fit` receives."""
        router = MetadataRouter(owner=self).add_self_request(self)
        if self._is_prefit():
            return router
        return router.add(estimator=self.estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit"))

    def __sklearn_clone__(self) -> Self:
        """Copies the arguments; a ranker that was trained before stays as it is, so that folds can be judged."""
        without = copy.copy(self)
        if self._is_prefit():
            without.estimator = None
        found: Self = _clone_parametrized(without)
        if self._is_prefit():
            found.estimator = self.estimator
        return found

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):
            inner = get_tags(self.estimator).input_tags
            tags.input_tags.sparse, tags.input_tags.allow_nan = inner.sparse, inner.allow_nan
        return tags

    def _is_prefit(self) -> bool:
        return isinstance(self.cv, str) and self.cv == PREFIT

    def _scores(self, ranker: Any, X: Any) -> tuple[Floats, Any]:
        return ranker_scores(ranker, own_columns(ranker, X, self.fields), self.score_from)

    def _of_ranker(self, weights: Floats | None, fit_params: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what the ranker's `fit` is given besides rows and labels."""
        if _routing_enabled():
            routed = process_routing(self, "fit", sample_weight=weights, **fit_params)
            given: dict[str, Any] = routed.estimator.fit
            return given
        if weights is None:
            return {}
        if not has_fit_parameter(self.estimator, "sample_weight"):
            name = type(self.estimator).__name__
            warnings.warn(f"sample_weight: {name} takes none; weights count for the calibrator alone", stacklevel=3)
            return {}
        return {"sample_weight": weights}

    def _trained(
        self, X: Any, labels: NDArray[np.bool_], lists: NDArray[np.intp] | None, given: Mapping[str, Any]
    ) -> Any:
        ranker = clone(self.estimator)
        X = own_columns(ranker, X, self.fields)
        if lists is not None and learns_from_lists(ranker):
            return fit_lists(ranker, X, labels.astype(np.int32), lists, given.get("sample_weight"))
        return ranker.fit(X, self.classes_[labels.astype(np.intp)], **given)

    def _cross_fitted(
        self, X: Any, labels: NDArray[np.bool_], lists: NDArray[np.intp] | None, given: Mapping[str, Any]
    ) -> tuple[Floats, Any]:
        scores = np.full(labels.shape[0], np.nan)
        space: Any = "logit"
        is_number = isinstance(self.cv, int | np.integer)
        folds = (
            StratifiedGroupKFold(self.cv)
            if lists is not None and is_number
            else check_cv(self.cv, labels, classifier=True)
        )
        for train, test in folds.split(X, labels, lists):
            part = {name: _safe_indexing(value, train) for name, value in given.items()}
            ranker = self._trained(
                _safe_indexing(X, train), labels[train], None if lists is None else lists[train], part
            )
            scores[test], space = self._scores(ranker, _safe_indexing(X, test))
        if np.isnan(scores).any():
            raise InvalidInput.of(
                "cv", f"{self.cv!r}, which leaves rows without a score", "folds that cover all rows", "use cv=5"
            )
        return scores, space

    def _field_names(self) -> list[str]:
        return [field if isinstance(field, str) else f"column {field}" for field in self.fields]

    def _fields_of(self, X: Any) -> dict[str, Any]:
        has_names = hasattr(X, "columns")
        columns = {}
        for field, name in zip(self.fields, self._field_names(), strict=True):
            if isinstance(field, str) and not has_names:
                raise InvalidInput.of(
                    "fields", repr(field), "places of columns, as X has no names", "pass a data frame"
                )
            if isinstance(field, str) and field not in X.columns:
                raise UnknownName.among("fields", field, [str(column) for column in X.columns])
            column = X[field] if isinstance(field, str) else _safe_indexing(X, field, axis=1)
            values = np.asarray(column)
            is_whole = values.dtype.kind == "f" and bool(np.all(np.isfinite(values) & (values == np.rint(values))))
            columns[name] = values.astype(np.int64) if is_whole else column
        return columns


def _rows(X: Any) -> Any:
    """Checks shape and kind of an array; data frames and a library's own matrices stay as they are."""
    if hasattr(X, "columns") or type(X).__name__ == "DMatrix":
        return X
    return check_array(X, accept_sparse="csr", dtype=None, ensure_all_finite=False)


def wrap(
    ranker: Any,
    *,
    method: str | Calibrator = DEFAULT_METHOD,
    fields: Sequence[str | int] = (),
    score_from: ScoreFrom = "auto",
    cv: Any = PREFIT,
) -> Calibrated:
    """Returns a ranker that is trained already with a calibrator around it; `fit` then takes rows that it has not seen.

    Arguments:
        ranker: A Booster, classifier or ranker of LightGBM, XGBoost or CatBoost, or a scikit-learn classifier.
        method: The calibrator: a name of `monocal.methods()`, or one with its arguments, made by `monocal.calibrator`.
        fields: Categorical columns that the calibrator may use.
        score_from: Which answer of the ranker is its score, see `Calibrated`.
        cv: `"prefit"`, or how to train and score in folds, see `Calibrated`.

    Example:
        >>> from sklearn.linear_model import LogisticRegression
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(3_000, 2))
        >>> y = rng.random(3_000) < 1 / (1 + np.exp(2 - X[:, 0]))
        >>> ranker = LogisticRegression(class_weight="balanced").fit(X[:1_000], y[:1_000])  # learns the wrong rate
        >>> calibrated = wrap(ranker, method="platt").fit(X[1_000:], y[1_000:])
        >>> rates = [model.predict_proba(X[1_000:])[:, 1].mean() for model in (ranker, calibrated)]
        >>> [bool(rate > 1.5 * y[1_000:].mean()) for rate in rates]
        [True, False]
    """
    return Calibrated(ranker, method=method, score_from=score_from, fields=fields, cv=cv)
