"""What a calibrator knows about its own effects: how surely it knows them, and how they have moved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.statistical.refreshing.filtering import with_room
from monocal.calibrators.statistical.refreshing.rates import SHOCKS, WALKS, believed_rates
from monocal.core.samples import Ids
from monocal.core.spaces import Floats

MOST_WATCHED = 256
"""Values of each field, the best known ones, on which rates are learned; all values then move at these rates."""

_BLOCK_ROWS = 1 << 20

State = dict[str, NDArray[Any]]


def values_information(curvature: Floats, features: Ids, offsets: NDArray[np.int64]) -> Floats:
    r"""Returns the curvature :math:`\sum w\,p\,(1 - p)` of the loss along the shift of each field value.

    Arguments:
        curvature: w p (1 − p), one per row.
        features: Field ids `(n, F)`.
        offsets: Where each field starts among the values.
    """
    values = np.zeros(int(offsets[-1]))
    for first in range(0, len(curvature), _BLOCK_ROWS):
        rows = slice(first, first + _BLOCK_ROWS)
        block = np.asarray(features[rows])
        for field in range(block.shape[1]):
            here = slice(offsets[field], offsets[field + 1])
            # sums so far come first, so that the bits are those of one pass
            ids = np.concatenate([np.arange(here.stop - here.start), block[:, field]])
            values[here] = np.bincount(ids, np.concatenate([values[here], curvature[rows]]))
    values[offsets[:-1]] = 0.0
    return values


@final
@dataclass(frozen=True, eq=False)
class Posterior:
    """Precisions of all effects, and the candidates' views of some of them.

    Parts are the single effects (level, slope, network) and then the fields.

    Attributes:
        precision: Of every field value's shift, field after field.
        single_precision: Of every single effect.
        penalties: One per field: 1 over the variance of its shifts.
        watched: Places of the values on which rates are learned.
        means: What each candidate believes, `(candidates, watched values and single effects)`; single effects as
            deviations from the value in use.
        precisions: How surely.
        evidence: How well each candidate predicted each part so far, `(candidates, parts)`.
    """

    precision: Floats
    single_precision: Floats
    penalties: Floats
    watched: NDArray[np.int64]
    means: Floats
    precisions: Floats
    evidence: Floats

    @classmethod
    def at_first(
        cls,
        shifts: Floats,
        offsets: NDArray[np.int64],
        information: Floats,
        single_information: Floats,
        penalties: Floats,
        n_steps: float,
    ) -> Posterior:
        """Returns what a fit knows, seen as if its rows had come in steps of the size of a refresh.

        Arguments:
            shifts: One per value.
            offsets: Where each field starts.
            information: Curvature of the fit's loss along every shift.
            single_information: Along every single effect.
            penalties: One per field.
            n_steps: How many refreshes the rows of the fit would have made.
        """
        n_single, n_fields = single_information.size, len(penalties)
        watched = [
            start + np.sort(np.argsort(-information[start:end], kind="stable")[: min(MOST_WATCHED, end - start)])
            for start, end in pairwise(offsets)
        ]
        places = np.concatenate([*watched, np.zeros(0, dtype=np.int64)]).astype(np.int64)
        pull = np.repeat(penalties, np.diff(offsets))
        evidence = np.zeros((WALKS.size, n_single + n_fields))
        rates = believed_rates(evidence)
        sizes = np.diff(offsets)
        precision = _after_steps(
            information,
            pull,
            np.repeat(rates.walk[n_single:], sizes),
            np.repeat(rates.shock[n_single:], sizes),
            n_steps,
        )
        single = _after_steps(
            single_information, np.zeros(n_single), rates.walk[:n_single], rates.shock[:n_single], n_steps
        )
        both = np.concatenate([single_information, information[places]])
        pulls = np.concatenate([np.zeros(n_single), pull[places]])
        precisions = np.stack(
            [
                _after_steps(both, pulls, np.float64(q**2), np.float64(s**2), n_steps)
                for q, s in zip(WALKS, SHOCKS, strict=True)
            ]
        )
        means = np.tile(np.concatenate([np.zeros(n_single), shifts[places]]), (WALKS.size, 1))
        return cls(precision, single, penalties, places, means, precisions, evidence)

    def as_arrays(self) -> State:
        return dict(vars(self))

    def with_values(self, offsets: NDArray[np.int64], grown: NDArray[np.int64]) -> Posterior:
        """Returns the same with more values per field; a new value is known as far as its field is.

        Arguments:
            offsets: Where each field starts now.
            grown: Where it will start.
        """
        places = moved_places(offsets, grown)
        precision = np.repeat(self.penalties, np.diff(grown))
        precision[places] = self.precision
        return replace(self, precision=precision, watched=places[self.watched])


def moved_places(offsets: NDArray[np.int64], grown: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns where each value of a concatenated table is when every field has room for more.

    Example:
        >>> moved_places(np.array([0, 2, 5]), np.array([0, 4, 8])).tolist()
        [0, 1, 4, 5, 6]
    """
    return np.arange(int(offsets[-1])) + np.repeat(grown[:-1] - offsets[:-1], np.diff(offsets))


def _after_steps(information: Floats, pull: Floats, walk: Any, shock: Any, n_steps: float) -> Floats:
    """Precision at the end of a fit whose rows came in equal steps: shocks are averaged, and the walk went on."""
    averaged = information / (1.0 + information * shock / n_steps)
    precision = np.maximum(pull + averaged, 1e-6)
    # the fit knows the mean over its time; the effect at its end is a third of the walk away from that
    variance = 1.0 / precision + walk * n_steps / 3.0
    widest = np.maximum(1.0 / precision, 1.0 / np.maximum(with_room(pull, walk), 1e-12))
    result: Floats = 1.0 / np.minimum(variance, widest)
    return result
