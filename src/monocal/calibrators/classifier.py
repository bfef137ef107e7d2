"""What needs scikit-learn: a calibrator dressed as a classifier, and the error of a prediction before a fit."""

from __future__ import annotations

from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError

from monocal.calibrators.base import Calibrator
from monocal.core.errors import MonocalError
from monocal.core.scores import Floats


class NotFitted(MonocalError, NotFittedError):  # type: ignore[misc]
    """Predict was called before fit."""

    @classmethod
    def of(cls, name: str) -> NotFitted:
        return cls(
            f"{name}: got predict before fit; expected a fitted calibrator. "
            "Hint: call fit(scores, labels) first, or monocal.load a saved model."
        )


@final
class CalibratedScores(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier on a matrix whose first column is the score and whose other columns are field ids."""

    def __init__(self, calibrator: Calibrator) -> None:
        self.calibrator = calibrator

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        scores, features = _split(X)
        self.classes_ = np.array([0, 1])
        self.calibrator_ = clone(self.calibrator).fit(scores, y, features=features, weights=sample_weight)
        return self

    def predict_proba(self, X: ArrayLike) -> Floats:
        scores, features = _split(X)
        p = self.calibrator_.predict(scores, features=features)
        return np.column_stack([1.0 - p, p])

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        return (self.predict_proba(X)[:, 1] >= 0.5).astype(np.int64)


def as_classifier(calibrator: Calibrator) -> CalibratedScores:
    """Returns a scikit-learn classifier with `predict_proba (n, 2)` around a calibrator.

    Example:
        >>> from monocal.calibrators.platt import PlattCalibrator
        >>> X = np.array([[0.1], [0.2], [0.7], [0.9]])
        >>> as_classifier(PlattCalibrator(l2=1.0)).fit(X, [0, 1, 0, 1]).predict_proba(X).shape
        (4, 2)
    """
    return CalibratedScores(calibrator)


def _split(X: Any) -> tuple[Floats, NDArray[np.int32] | None]:
    matrix = np.asarray(X)
    features = matrix[:, 1:].astype(np.int32) if matrix.shape[1] > 1 else None
    return matrix[:, 0].astype(np.float64), features
