"""What needs scikit-learn: probabilities of two classes as a classifier has them, and the error before a fit."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from monocal.calibrators.base import Calibrator
from monocal.core.errors import InvalidInput, MonocalError
from monocal.core.scores import Floats, ScoreSpace

_LEAST, _MOST = np.finfo(np.float64).tiny, 1.0 - 2.0**-53


class NotFitted(MonocalError, NotFittedError):  # type: ignore[misc]
    """Predict was called before fit."""

    @classmethod
    def of(cls, name: str) -> NotFitted:
        return cls(
            f"{name}: got predict before fit; expected a fitted calibrator. "
            "Hint: call fit(scores, labels) first, or monocal.load a saved model."
        )


class TwoClasses(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of two classes that answers with probabilities; everything else follows from them."""

    classes_: NDArray[Any]

    @abstractmethod
    def predict_proba(self, X: Any) -> Floats:
        """Returns the probabilities of both classes `(n, 2)`."""

    @final
    def predict_log_proba(self, X: Any) -> Floats:
        """Returns their logarithms.

        Arguments:
            X: Rows with the columns of `fit`.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    @final
    def decision_function(self, X: Any) -> Floats:
        """Returns the calibrated logit of each row, positive where the second class is the more probable one.

        Arguments:
            X: Rows with the columns of `fit`.
        """
        found: Floats = special.logit(np.clip(self.predict_proba(X)[:, 1], _LEAST, _MOST))
        return found

    @final
    def predict(self, X: Any) -> NDArray[Any]:
        """Returns the more probable class of each row, the first where both are equally probable.

        Arguments:
            X: Rows with the columns of `fit`.
        """
        more = (self.predict_proba(X)[:, 1] > 0.5).astype(np.intp)
        found: NDArray[Any] = self.classes_[more]
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _learn_classes(self, y: ArrayLike, n_rows: int, weights: Floats | None) -> NDArray[np.bool_]:
        """Sets `classes_` and returns which rows belong to the second."""
        if y is None:
            raise InvalidInput.of("y", None, "two labels: requires y to be passed, but the target y is None", "pass y")
        column = column_or_1d(y, warn=True)
        check_classification_targets(column)
        if column.shape[0] != n_rows:
            raise InvalidInput.of("y", f"{column.shape[0]} labels", f"{n_rows}, one per row", "pass rows of one table")
        self.classes_ = np.unique(column)
        if len(self.classes_) != 2:
            kind = type_of_target(column, input_name="y")
            raise InvalidInput.of(
                "y",
                f"{len(self.classes_)} class(es)",
                f"two. Only binary classification is supported. The type of the target is {kind}",
                "calibrate one label against the rest",
            )
        found: NDArray[np.bool_] = column == self.classes_[1]
        counted = found if weights is None else found[weights > 0.0]
        if counted.all() or not counted.any():
            raise InvalidInput.of(
                "sample_weight", "weights that leave one class", "both classes among rows that count", "widen the rows"
            )
        return found


@final
class CalibratedScores(TwoClasses):
    """A classifier on columns of which the first is the score and the others are fields.

    Arguments:
        calibrator: The method; it stays as it is, a copy of it is fitted.
        scores_are: `"probability"` or `"logit"`.

    Attributes:
        calibrator_: The fitted copy.
        classes_: Both labels; probabilities are those of the second.
    """

    def __init__(self, calibrator: Calibrator, *, scores_are: ScoreSpace = "probability") -> None:
        self.calibrator = calibrator
        self.scores_are = scores_are

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learns the map from scores and fields to probabilities.

        Arguments:
            X: The score, then fields: ids (whole numbers, 0 = unseen), or in a data frame raw values.
            y: Two labels; the second in sorted order is the event.
            sample_weight: How often each row counts.
        """
        X = _matrix(X)
        validate_data(self, X, skip_check_array=True)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X)
        scores, features = self._split(X)
        events = self._learn_classes(y, len(scores), weights)
        self.calibrator_ = clone(self.calibrator).fit(
            scores, events, features=features, weights=weights, scores_are=self.scores_are
        )
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Returns the probabilities of both classes `(n, 2)`.

        Arguments:
            X: Rows with the columns of `fit`.
        """
        check_is_fitted(self, "calibrator_")
        X = _matrix(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        scores, features = self._split(X)
        p = self.calibrator_.predict(scores, features=features)
        return np.column_stack([1.0 - p, p])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # it knows one column of X
        return tags

    def _split(self, X: Any) -> tuple[Any, Any]:
        """The score, and what the method can use of the other columns."""
        names = [*X.columns] if hasattr(X, "columns") else [*range(X.shape[1])]
        first, *fields = [X[name] if hasattr(X, "columns") else X[:, name] for name in names]
        score = check_array(np.asarray(first), ensure_2d=False, dtype=np.float64, input_name="X")
        if not fields or not self.calibrator.tags.uses_features:
            return score, None
        columns = [np.asarray(column) for column in fields]
        if any(column.dtype.kind not in "iuf" for column in columns):
            return score, dict(zip(map(str, names[1:]), fields, strict=True))
        matrix = np.column_stack(columns)
        is_whole = matrix == np.rint(matrix)
        if not is_whole.all():
            row, place = (int(i) for i in np.argwhere(~is_whole)[0])
            raise InvalidInput.of(
                "X",
                f"{matrix[row, place]:g} at row {row}, column {place + 1}",
                "the score first, then ids of fields: whole numbers, 0 = unseen",
                "pass raw values as text, or leave the column out",
            )
        return score, matrix.astype(np.int64)


def as_classifier(calibrator: Calibrator, *, scores_are: ScoreSpace = "probability") -> CalibratedScores:
    """Returns a scikit-learn classifier around a calibrator: the first column of X is the score, others are fields.

    Arguments:
        calibrator: The method with its arguments.
        scores_are: `"probability"` or `"logit"`.

    Example:
        >>> from monocal.calibrators.platt import Platt
        >>> X = np.array([[0.1], [0.2], [0.7], [0.9]])
        >>> as_classifier(Platt(l2=1.0)).fit(X, [0, 1, 0, 1]).predict_proba(X).shape
        (4, 2)
    """
    return CalibratedScores(calibrator, scores_are=scores_are)


def _matrix(X: Any) -> Any:
    """Checks shape and kind of an array; data frames, whose columns may hold text, stay as they are."""
    return X if hasattr(X, "columns") else check_array(X, dtype=None, ensure_all_finite=False)
