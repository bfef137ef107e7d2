"""What the calibrator learned: the map from score to probability, whether it rises, and effects of numeric fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators import Calibrator
from monocal.core.dataset import Dataset
from monocal.core.fields import NULL_ID, Ids
from monocal.core.monotonicity import NotMonotone, assert_monotone, probe_logits
from monocal.core.numbers import value_text
from monocal.core.scores import Floats, logit, sigmoid
from monocal.tables.vocabulary import NumericField, Vocabulary

CURVE_POINTS = 61
SWEPT_CONTEXTS = 64
NAMED_VALUES = 2
MOST_CONTEXTS = 100
N_CONTEXTS = 2048
POINTS_BETWEEN_KNOTS = 4

Context = NDArray[np.int32]


def sample_contexts(ids: Ids) -> Ids:
    """Returns the distinct feature rows `(k, F)` of some two thousand rows spread over all."""
    return np.unique(_spread(ids, N_CONTEXTS), axis=0)


def _spread(rows: Ids, at_most: int) -> Ids:
    return rows[np.unique(np.linspace(0, len(rows) - 1, at_most).astype(np.int64))]


@final
@dataclass(frozen=True)
class MonotoneSweep:
    """What a sweep found.

    Attributes:
        guarantee: What the calibrator's tags say: `strict`, `weak` or `none`.
        n_contexts: Feature rows that were swept.
        n_steps: Steps from one score to the next higher one, some between neighbouring floating-point numbers.
        n_ties: Steps that left the probability as it was; only known when nothing fell.
        fall: What was found falling, in words; empty when nothing fell.
    """

    guarantee: str
    n_contexts: int
    n_steps: int
    n_ties: int
    fall: str

    @property
    def holds(self) -> bool:
        """Whether no higher score got a lower probability."""
        return not self.fall


def sweep_monotone(calibrator: Calibrator, contexts: Ids | None) -> MonotoneSweep:
    """Raises the score step by step for each feature row, over the whole range and along chains of neighbouring floats.

    Arguments:
        calibrator: A fitted calibrator.
        contexts: Feature rows `(k, F)`; None for a calibrator without features.
    """
    probes, n_ties, fall = probe_logits(), 0, ""
    n_contexts = 1 if contexts is None else len(contexts)
    try:
        n_ties = assert_monotone(lambda logits, ids: _answers(calibrator, logits, ids), contexts, logits=probes).n_ties
    except NotMonotone as error:
        fall = str(error)
    n_steps = n_contexts * (probes.shape[0] - 1)
    return MonotoneSweep(calibrator.tags.monotone, n_contexts, n_steps, n_ties, fall)


def _answers(calibrator: Calibrator, logits: Floats, ids: Ids | None) -> Floats:
    return calibrator.predict_data(Dataset(logits, ids=ids))


@final
@dataclass(frozen=True, eq=False)
class LearnedCurve:
    """The map for one feature row.

    Attributes:
        name: Why this row was chosen, such as "raised most".
        values: The field values that set it apart from the typical row, strongest first.
        calibrated: Probability at each score of `LearnedCurves.scores`.
        shift: Its logit shift at the median score.
    """

    name: str
    values: tuple[tuple[str, str], ...]
    calibrated: Floats
    shift: float


@final
@dataclass(frozen=True, eq=False)
class LearnedCurves:
    """Curves over the observed range of scores, and the sweep that checks that they rise.

    Attributes:
        scores: The scores (probabilities) at which curves are drawn.
        middle: The range that holds the middle 90 % of the rows.
        curves: The curves; one for a calibrator without features.
        sweep: Result of the monotonicity sweep.
        recent_shift: The intercept refit on recent rows, in logits; 0 when it was off.
    """

    scores: Floats
    middle: tuple[float, float]
    curves: tuple[LearnedCurve, ...]
    sweep: MonotoneSweep
    recent_shift: float


def learned_curves(calibrator: Calibrator, vocabulary: Vocabulary, logits: Floats, contexts: Ids) -> LearnedCurves:
    """Follows the map for a typical row, for the rows it moves most either way, and for one with unseen values only.

    Arguments:
        calibrator: A fitted calibrator.
        vocabulary: The values behind its field ids.
        logits: The scores of the rows at hand, which set the range.
        contexts: Feature rows `(k, F)` to choose from.
    """
    ends = np.quantile(logits, [0.001, 0.05, 0.1, 0.5, 0.9, 0.95, 0.999])
    low, median, high = float(ends[0]), float(ends[3]), float(ends[-1])
    if high <= low:
        low, high = low - 1.0, low + 1.0
    grid = np.linspace(low, high, CURVE_POINTS)

    def curve(name: str, context: Context | None, values: tuple[tuple[str, str], ...] = ()) -> LearnedCurve:
        return LearnedCurve(name, values, _at(calibrator, context, grid), _shift(calibrator, context, median))

    if calibrator.tags.uses_features and vocabulary.fields:
        chosen = _choose(calibrator, contexts, ends[[2, 3, 4]])
        rows = contexts[list(chosen)]
        curves = [
            curve(name, row, _what_sets_apart(calibrator, vocabulary, row, rows[0], median))
            for name, row in zip(chosen.values(), rows, strict=True)
        ]
        unseen = np.zeros_like(rows[:1])
        curves.append(curve("only unseen values", unseen[0]))
        swept = np.concatenate([rows, unseen, _spread(contexts, SWEPT_CONTEXTS - len(rows) - 1)])
        sweep = sweep_monotone(calibrator, np.unique(swept, axis=0))
    else:
        curves, sweep = [curve("every row", None)], sweep_monotone(calibrator, None)
    middle = (float(sigmoid(ends[1])), float(sigmoid(ends[5])))
    return LearnedCurves(sigmoid(grid), middle, tuple(curves), sweep, calibrator.recent_shift_)


def _choose(calibrator: Calibrator, contexts: Ids, logits: Floats) -> dict[int, str]:
    """Returns the places of a typical and of extreme contexts, and why they were chosen."""
    answers = np.stack([logit(_answers(calibrator, np.full(len(contexts), z), contexts)) for z in logits], axis=1)
    shift, rise = answers[:, 1] - logits[1], answers[:, 2] - answers[:, 0]
    distance = np.abs(answers - np.median(answers, axis=0)).sum(axis=1)
    candidates = [
        ("typical", np.argmin(distance)),
        ("raised most", np.argmax(shift)),
        ("lowered most", np.argmin(shift)),
    ]
    if float(rise.max() - rise.min()) > 1e-6:
        candidates += [("steepest", np.argmax(rise)), ("flattest", np.argmin(rise))]
    kept: dict[int, str] = {}
    for name, place in candidates:
        kept.setdefault(int(place), name)
    return kept


def _what_sets_apart(
    calibrator: Calibrator, vocabulary: Vocabulary, context: Context, typical: Context, at: float
) -> tuple[tuple[str, str], ...]:
    """Names the values that move the typical row most when they replace its own, one at a time."""
    differing = np.flatnonzero(context != typical)
    if not differing.size:
        places = np.arange(min(NAMED_VALUES, context.shape[0]))
    else:
        changed = np.repeat(typical[None, :], differing.size, axis=0)
        changed[np.arange(differing.size), differing] = context[differing]
        swapped = logit(_answers(calibrator, np.full(differing.size, at), changed))
        effect = np.abs(swapped - _shift(calibrator, typical, at) - at)
        places = differing[np.argsort(-effect, kind="stable")[:NAMED_VALUES]]
    return tuple(
        (vocabulary.fields[place].name, _value_name(vocabulary, int(place), int(context[place]))) for place in places
    )


def _value_name(vocabulary: Vocabulary, place: int, number: int) -> str:
    if number == 0:
        return "(unseen)"
    field = vocabulary.fields[place]
    if isinstance(field, NumericField):
        value = float(field.numbers_of(np.array([number], dtype=np.int32))[0])
        return value_text(None if np.isnan(value) else f"{value:.6g}")
    return value_text(field.values[number - 1].as_py())


def _at(calibrator: Calibrator, context: Context | None, logits: Floats) -> Floats:
    return _answers(calibrator, logits, None if context is None else np.tile(context, (len(logits), 1)))


def _shift(calibrator: Calibrator, context: Context | None, at: float) -> float:
    return float(logit(_at(calibrator, context, np.array([at])))[0]) - at


@final
@dataclass(frozen=True, eq=False)
class NumericEffect:
    """The effect of one numeric field in logit, against the mean over its knots.

    Attributes:
        name: The field.
        numbers: Where the curve is evaluated, rising; the knots are every fourth of them.
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
    rows, median = _spread(contexts, MOST_CONTEXTS), float(np.median(logits))
    return tuple(
        _effect(calibrator, field, place, rows, median)
        for place, field in enumerate(vocabulary.fields)
        if isinstance(field, NumericField) and field.n_knots > 1
    )


def _effect(calibrator: Calibrator, field: NumericField, place: int, rows: Ids, at: float) -> NumericEffect:
    steps = np.arange((field.n_knots - 1) * POINTS_BETWEEN_KNOTS + 1) / POINTS_BETWEEN_KNOTS
    numbers = np.interp(steps, np.arange(field.n_knots), field.knots)
    ids = np.append(field.ids_of(numbers), np.int32(NULL_ID))
    features = np.tile(rows, (len(ids), 1))
    features[:, place] = np.repeat(ids, len(rows))
    answers = logit(_answers(calibrator, np.full(len(features), at), features))
    means = answers.reshape(len(ids), len(rows)).mean(axis=1)
    level = float(means[:-1][::POINTS_BETWEEN_KNOTS].mean())
    return NumericEffect(field.name, numbers, means[:-1] - level, float(means[-1]) - level)
