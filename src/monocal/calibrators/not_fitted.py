"""The error of a prediction before a fit; loads scikit-learn, whose error it is as well."""

from __future__ import annotations

from sklearn.exceptions import NotFittedError

from monocal.core.errors import MonocalError


class NotFitted(MonocalError, NotFittedError):  # type: ignore[misc]
    """Predict was called before fit."""

    @classmethod
    def of(cls, name: str) -> NotFitted:
        return cls(
            f"{name}: got predict before fit; expected a fitted calibrator. "
            "Hint: call fit(scores, labels) first, or monocal.load a saved model."
        )
