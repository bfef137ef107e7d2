"""What a fit is asked, beside its rows and their roles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, final

from monocal.calibrators import Calibrator, calibrator
from monocal.core.roles import Roles
from monocal.logs.encoded_log import EncodedLog
from monocal.logs.late_input import Embeddings, late_input
from monocal.logs.scored_input import ScoredInput
from monocal.tables.late_labels import LateLabels
from monocal.tables.rows import Rows


@final
@dataclass(frozen=True, eq=False)
class FitOptions:
    """How rows are fitted; an unknown method or argument is refused at once, before anything is read.

    Attributes:
        method: Name of the calibrator.
        arguments: Constructor arguments of the calibrator.
        min_count: Field values with fewer rows count as unseen.
        max_size: The most values a field may have; rarer ones count as unseen.
        embeddings: A ranker's table per field, for methods that can use it; None means those of the log, if any.
    """

    method: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    min_count: int = 1
    max_size: int | None = None
    embeddings: Embeddings | None = None

    def __post_init__(self) -> None:
        self.calibrator()

    def calibrator(self) -> Calibrator:
        """Returns a calibrator that is not fitted yet."""
        return calibrator(self.method, **self.arguments)

    @property
    def limits(self) -> dict[str, Any]:
        """Bounds of the vocabulary."""
        return {"min_count": self.min_count, "max_size": self.max_size}


def rows_to_fit(
    table: ScoredInput, roles: Roles, asked: FitOptions
) -> tuple[Rows | EncodedLog, FitOptions, LateLabels | None]:
    """Returns rows in time order, or a log; options with what only these can tell; what is known of late labels.

    Arguments:
        table: A table, or a log with scores.
        roles: Which column plays which part.
        asked: How they will be fitted.
    """
    rows, embeddings, labels = late_input(table, roles)
    if asked.embeddings is None:
        asked = replace(asked, embeddings=embeddings)
    return rows, asked, labels
