"""Whether a model keeps the order of items that share all features."""

from __future__ import annotations

import numpy as np

from monocal.calibrators import Calibrator
from monocal.core.errors import InvalidInput
from monocal.core.samples import Ids, Samples

_PROBES = np.linspace(-6.0, 6.0, 61)


def check_can_keep_order(method: Calibrator) -> None:
    """Refuses a method whose map may be flat or fall, before anything is fitted."""
    if not method.rises_strictly:
        raise InvalidInput.of(
            "keep_order_within",
            f"the method {method.name!r}, whose map may be level or fall",
            "a method that rises strictly with the score",
            "use mlplatt, umc, wide_logistic or platt",
        )


def check_keeps_order(fitted: Calibrator, ids: Ids) -> None:
    """Refuses a fit that gives items with different scores the same probability: one whose slope became 0.

    Arguments:
        fitted: A fitted calibrator.
        ids: Field ids of a few rows `(k, F)`.
    """
    for row in ids:
        features = np.repeat(row[None], _PROBES.size, axis=0) if row.size else None
        p = fitted.predict_samples(Samples(_PROBES, features=features))
        if not np.all(np.diff(p) > 0.0):
            raise InvalidInput.of(
                "keep_order_within",
                "a fit in which a higher score means no higher probability",
                "scores that rise with the rate of positives",
                "check the score column: it may be reversed, or say nothing",
            )
