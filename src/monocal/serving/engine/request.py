"""What the engine is asked and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, final

from numpy.typing import ArrayLike

from monocal.core.row_intervals import KnownLogits, row_intervals
from monocal.core.samples import Ids
from monocal.core.spaces import Floats
from monocal.models.model import Fusion

MissingFields = Literal["refuse", "unseen"]
"""What a request without one of the model's fields gets: a refusal, or an answer as for an unseen value."""

Value = str | int | bool | None
"""A raw field value; the vocabulary compares values as text, so 7 and "7" are the same one."""


@final
@dataclass(slots=True)
class Request:
    """The candidates of one ranking request.

    Attributes:
        scores: The ranker's score of every candidate, per task, in the model's score space. Tasks may be left out.
        shared: Values of the fields that are the same for all candidates (user, context), given once.
        fields: Values of the other fields, one per candidate.
        ids: Field ids `(candidates, fields)` in the model's field order, instead of `shared` and `fields`.
        sampling_rate: Share of negatives the ranker was trained on, one number or one per candidate; None means the
            model's.
        fusion: How to combine the tasks; None means the model's rule, if it has one.
        other: What untouched heads add to the fused score, one number per candidate.
        interval: How often the true probability is meant to lie between two ends; None asks for no ends.
    """

    scores: Mapping[str, ArrayLike]
    shared: Mapping[str, Value] = field(default_factory=dict)
    fields: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    ids: Ids | None = None
    sampling_rate: float | ArrayLike | None = None
    fusion: Fusion | None = None
    other: ArrayLike | None = None
    interval: float | None = None


@final
@dataclass(slots=True)
class Answer:
    """Calibrated probabilities of one request.

    Attributes:
        probabilities: Per task, one number per candidate.
        fused: The fused ranking score per candidate; None without a fusion rule.
        version: Fingerprint of the model that answered.
        logits: Per task, the scores as logits after the sampling correction (live metrics compare them with fit time).
        ids: The ids that the field values turned into.
        known: Per task, how surely each logit is known; empty unless the request asked for an interval.
    """

    probabilities: dict[str, Floats]
    fused: Floats | None
    version: str
    logits: dict[str, Floats]
    ids: Ids
    known: dict[str, KnownLogits] = field(default_factory=dict)

    def ends(self, level: float) -> dict[str, dict[str, Floats]]:
        """Returns the lower and the upper ends of all tasks, as `Model.predict` with this interval does."""
        found = {task: row_intervals(p, self.known[task], level) for task, p in self.probabilities.items()}
        return {end: {task: getattr(interval, end) for task, interval in found.items()} for end in ("lower", "upper")}

    @property
    def n_rows(self) -> int:
        return int(self.ids.shape[0])
