"""Fields that know the outcome or name single rows: named by hand, they are still worth a warning."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from monocal.core.batches import release_pages
from monocal.core.errors import MonocalWarning
from monocal.core.numeric_ids import FIRST_ID, NULL_ID, STEPS
from monocal.logs.encoded_log import EncodedLog
from monocal.tables.checks import SUSPICIOUS_SHARE, UNIQUE_SHARE, always_one_outcome, explained_share
from monocal.tables.vocabulary import FieldVocabulary

_A_COPY = 0.9
_SAMPLE_ROWS = 50_000
_ENOUGH_ROWS = 1_000
"""With fewer rows only copies are spoken of: a hundred rows have a hundred users."""


def warn_about_copies(log: EncodedLog) -> None:
    """Warns about every field that seems to know a label, or has another value in most of the first rows.

    It knows a label if it explains a quarter of it, or if it has few values and many rows of one of them all had one
    outcome. The first kind was measured after the fact (a watch time, a follow-up action): a model that uses it is
    perfect on the log and useless in service. The second (a request id) teaches a model its rows by heart.
    """
    sample = np.array(log.features[:_SAMPLE_ROWS])
    release_pages(log.features)
    numeric = np.flatnonzero(log.vocabulary.numeric_knots or ())
    # numbers between two knots count as one value
    sample[:, numeric] = np.where(
        sample[:, numeric] > NULL_ID, (sample[:, numeric] - FIRST_ID) // STEPS + FIRST_ID, sample[:, numeric]
    )
    is_enough = len(sample) >= _ENOUGH_ROWS
    for index, name in enumerate(log.field_names):
        n_values = len(np.unique(sample[:, index]))
        if is_enough and n_values > UNIQUE_SHARE * len(sample):
            named = f"names rows: {n_values:,} values in {len(sample):,} rows"
            _warn(_argument(log, name), f"{name!r}, which {named}", "an id of a row")
    for task, column in log.labels.items():
        labels = np.asarray(column[:_SAMPLE_ROWS])
        known = np.flatnonzero(labels >= 0)
        for index, name in enumerate(log.field_names):
            codes, outcomes = sample[known, index], labels[known].astype(np.float64)
            explained = explained_share(codes, outcomes, log.field_sizes[index])
            argument, said = _argument(log, name), f"{name!r}, which tells {log.roles.labels[task]!r}"
            if explained > (SUSPICIOUS_SHARE if is_enough else _A_COPY):
                _warn(argument, f"{said}: it explains {100 * explained:.0f} % of it", "known only after the outcome")
            elif index not in numeric and (worst := always_one_outcome(codes, outcomes, log.field_sizes[index])):
                value, outcome, n_rows = worst
                where = _value(log.vocabulary.fields[index], value)
                always = f"{said}: always {outcome} where it is {where} ({n_rows:,} rows)"
                _warn(argument, always, "known only after the outcome")


def _value(field: Any, number: int) -> str:
    is_listed = isinstance(field, FieldVocabulary) and field.n_buckets is None and number > 0
    return repr(field.values[number - 1].as_py()) if is_listed else f"id {number}"


def _argument(log: EncodedLog, name: str) -> str:
    """The argument that named a field."""
    return "numeric" if name in log.roles.numeric else "fields"


def _warn(argument: str, said: str, reason: str) -> None:
    warnings.warn(
        f"{argument}: got {said}. Hint: name {argument}= without it if it is {reason}", MonocalWarning, stacklevel=4
    )
