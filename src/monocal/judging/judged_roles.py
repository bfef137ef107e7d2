"""Which column is what in a table that is judged: a score column's, or those that a model brings along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.roles import Roles
from monocal.core.spaces import ScoreSpace
from monocal.models.model import Model


def judged_roles(
    model: Model | None,
    available: Sequence[str],
    *,
    score: str | None,
    label: str | None,
    tasks: Mapping[str, tuple[str, str]] | None,
    sampling_rate: float | str | None,
    scores_are: ScoreSpace,
    soft_labels: bool | None,
    fields: Sequence[str] | None = None,
    by: Sequence[str] = (),
    **others: Any,
) -> Roles:
    """Returns the roles of a table on which a score, or a model beside its own score, is judged.

    Arguments:
        model: Brings its tasks, fields, score space and sampling rate along; None judges a score column.
        available: The columns of the table; one that the model needs and that is missing is refused.
        score: The score column, without a model.
        label: The 0/1 column; with a model the one it was fitted on unless said otherwise.
        tasks: Several tasks: name to (label column, score column).
        sampling_rate: A number or a column; None means the model's.
        scores_are: The space of the scores, without a model.
        soft_labels: Whether labels may be any numbers in [0, 1]; None means as at the model's fit.
        fields: Columns for field-wise metrics; None means the model's.
        by: Columns of which every value is judged.
        others: The other roles, by name.

    Example:
        >>> asked = {"label": "click", "tasks": None, "sampling_rate": 0.5, "scores_are": "logit", "soft_labels": None}
        >>> roles = judged_roles(None, ["z", "click"], score="z", **asked)
        >>> roles.scores, roles.scores_are, roles.sampling_rate
        ({'click': 'z'}, 'logit', 0.5)
    """
    asked: dict[str, Any] = {"tasks": tasks, "sampling_rate": sampling_rate, "slices": [*(fields or ()), *by]}
    if model is None:
        asked |= {"scores_are": scores_are, "soft_labels": bool(soft_labels)}
        roles = Roles.of(score=score, label=label, **asked, **others)
    else:
        if score is not None:
            raise InvalidInput.of("score", repr(score), "the model's own score columns", "leave score= out")
        model.check_columns(list(available))
        roles = model.roles(label, soft_labels=soft_labels, **asked, **others)
    check_fields(fields or (), available)
    return roles


def check_fields(fields: Sequence[str], available: Sequence[str]) -> None:
    """Refuses a missing column by the argument that named it: fields of a judgement are read as slices.

    Example:
        >>> check_fields(["sites"], ["site", "click"])
        Traceback (most recent call last):
        ...
        monocal.core.errors.UnknownName: fields: got 'sites'; expected one of site, click. Hint: did you mean 'site'?
    """
    for name in fields:
        if name not in available:
            raise UnknownName.among("fields", name, available)
