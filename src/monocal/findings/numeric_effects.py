"""What a model adds for every number of its numeric fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from monocal.calibrators import Calibrator
from monocal.core.numeric_ids import NULL_ID
from monocal.core.samples import Ids, Samples
from monocal.core.spaces import Floats, logit
from monocal.tables.vocabulary import NumericField, Vocabulary

MOST_CONTEXTS = 100
POINTS_BETWEEN_KNOTS = 4


@final
@dataclass(frozen=True, eq=False)
class NumericEffect:
    """The effect of one numeric field in logit, against the mean over its knots.

    Attributes:
        name: The field.
        numbers: Where the curve is told, rising; the knots are every fourth of them.
        shifts: The curve: mean over typical rows at the median score.
        of_null: The shift of a row without a number.
    """

    name: str
    numbers: Floats
    shifts: Floats
    of_null: float


def numeric_effects(
    calibrator: Calibrator, vocabulary: Vocabulary, logits: Floats, contexts: Ids
) -> tuple[NumericEffect, ...]:
    """Follows every numeric field from its lowest to its highest knot, with everything else as in real rows.

    Arguments:
        calibrator: A fitted calibrator.
        vocabulary: The fields behind its ids.
        logits: The scores of the rows at hand; their median is used.
        contexts: Feature rows `(k, F)` of real rows.
    """
    if not (calibrator.tags.uses_features and vocabulary.numeric_names):
        return ()
    spread = np.unique(np.linspace(0, len(contexts) - 1, MOST_CONTEXTS).astype(np.int64))
    rows, median = contexts[spread], float(np.median(logits))
    found = []
    for place, field in enumerate(vocabulary.fields):
        if isinstance(field, NumericField) and field.n_knots > 1:
            found.append(_effect(calibrator, field, place, rows, median))
    return tuple(found)


def _effect(calibrator: Calibrator, field: NumericField, place: int, rows: Ids, at: float) -> NumericEffect:
    steps = np.arange((field.n_knots - 1) * POINTS_BETWEEN_KNOTS + 1) / POINTS_BETWEEN_KNOTS
    numbers = np.interp(steps, np.arange(field.n_knots), field.knots)
    ids = np.append(field.ids_of(numbers), np.int32(NULL_ID))
    features = np.tile(rows, (len(ids), 1))
    features[:, place] = np.repeat(ids, len(rows))
    answers = logit(calibrator.predict_samples(Samples(np.full(len(features), at), features=features)))
    means = answers.reshape(len(ids), len(rows)).mean(axis=1)
    level = float(means[:-1][::POINTS_BETWEEN_KNOTS].mean())
    return NumericEffect(field.name, numbers, means[:-1] - level, float(means[-1]) - level)
