"""What speaks against a column as a field: it knows the outcome, names single rows, or moves with time."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput, MonocalWarning
from monocal.core.fields import FIRST_ID, NULL_ID, STEPS
from monocal.core.process import release_pages
from monocal.core.scores import Floats
from monocal.tables.categories import distinct_text
from monocal.tables.columns import kind_of, numbers_in, numbers_or_nan, one_chunk
from monocal.tables.roles import AUTO, Roles
from monocal.tables.source import TableLike, TableStream, open_table
from monocal.tables.vocabulary import FieldVocabulary

if TYPE_CHECKING:
    from monocal.tables.table import Table

SAMPLE_ROWS = 200_000
UNIQUE_SHARE = 0.5
"""A column with more distinct values than this share of its rows names rows."""

SUSPICIOUS_SHARE = 0.25
"""A column that alone explains more than this of the label's entropy seems to know the outcome."""

_FEW_VALUES = 50
_MANY_ROWS = 500
_SURE = -20.0
"""Chance of e^-20 that a value's rows would all have one outcome by luck: two in a billion."""

_A_COPY = 0.9
_COPY_ROWS = 50_000

_NEWEST_SHARE = 0.2
_MOST = 0.5
_ENOUGH_ROWS = 1_000
"""A few rows in the order of a price are no sign of time, and a hundred rows have a hundred users."""

_FEWEST_SCORES = 100
"""Fewer rows may look like anything."""

_FAR_BELOW = -6.0
"""Standard errors: a score that has nothing to do with the label is so far below once in a billion fits."""


@final
@dataclass(frozen=True)
class ProposedField:
    """One categorical column.

    Attributes:
        name: The column.
        n_values: Distinct values in the sample, a null included.
        most_common: The most frequent value.
        most_common_share: Its share of the sample.
        objection: Why it had better not be a field; empty if it may be one.
    """

    name: str
    n_values: int
    most_common: str
    most_common_share: float
    objection: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def propose_fields(table: TableLike, roles: Roles, *, sample_rows: int = SAMPLE_ROWS) -> list[ProposedField]:
    """Looks at the first rows of a table and says which columns could be fields.

    A column is objected to if it holds no categories, if it has one value only, if most of its values occur once (it
    names rows), or if it seems to know the outcome: alone it explains a quarter of the label's entropy, or it is one of
    few values that occur with one outcome only, far more often than luck would have it. What was measured after the
    fact, such as a watch time, leaks the label into the features; the weaker leaks (a rare follow-up action) only a
    person can see.

    Arguments:
        table: Anything `open_table` takes.
        roles: Columns that play a part already: they are no fields, and one that is missing is refused. The first
            label is what a field must not know.
        sample_rows: How many rows to look at.

    Example:
        >>> n = np.arange(1000)
        >>> log = {"row": n, "site": n % 7, "watched": n % 3 == 0, "click": (n % 3 == 0).astype(int)}
        >>> [(field.name, field.objection) for field in propose_fields(log, Roles(label="click"))]
        [('row', 'most values occur once'), ('site', ''),
         ('watched', 'it seems to know click: it explains 100 % of it')]
    """
    stream = open_table(table)
    roles.check_columns(stream.column_names)
    label = next(iter(roles.labels.values()))
    free = [column for column in stream.arrow_schema if column.name not in roles.columns]
    candidates = [column.name for column in free if _may_be_field(column.type)]
    sample = _first_rows(stream, candidates, label, sample_rows)
    labels = _labels(sample, label)
    others = [column.name for column in free if column.name not in candidates]
    return [
        *(_look_at(sample, name, label, labels) for name in candidates),
        *(ProposedField(name, 0, "", 0.0, _NO_CATEGORY) for name in others),
    ]


_NO_CATEGORY = "no categories; numeric= takes numbers"


def _may_be_field(kind: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(kind)) or kind_of(kind) in ("text", "integer", "boolean")


def usable_fields(proposed: Iterable[ProposedField]) -> list[str]:
    """Returns the columns that nothing speaks against."""
    return [field.name for field in proposed if not field.objection]


def with_auto_fields(
    table: TableLike, columns: Mapping[str, Any], *, uses_fields: bool = True
) -> tuple[dict[str, Any], list[str]]:
    """Returns columns with proposed fields in place of "auto", and lines on what was taken and what was left out.

    Arguments:
        table: The table; a prepared log knows its fields.
        columns: Columns by the names of `Roles`.
        uses_fields: Whether there is a method that looks at fields; without one none are proposed.

    Example:
        >>> n = np.arange(1000)
        >>> log = {"p": n / 1000, "click": n % 2, "row": n, "site": n % 7}
        >>> with_auto_fields(log, {"score": "p", "label": "click", "fields": "auto"})
        ({'score': 'p', 'label': 'click', 'fields': ['site']},
         ['fields: site', 'left out: row (most values occur once)'])
    """
    from monocal.tables.encoded import is_encoded

    given, fields = dict(columns), columns.get("fields") or ()
    if fields != AUTO and list(fields) != [AUTO]:
        return given, []
    del given["fields"]
    if not uses_fields or is_encoded(table) or hasattr(table, "as_table"):
        return given, []
    proposed = propose_fields(table, Roles(**given))
    given["fields"] = usable_fields(proposed)
    left_out = [f"{field.name} ({field.objection})" for field in proposed if field.objection]
    lines = [f"fields: {', '.join(given['fields']) or 'none'}", f"left out: {', '.join(left_out)}"]
    return given, lines[: 1 + bool(left_out)]


def _first_rows(stream: TableStream, candidates: list[str], label: str, n_rows: int) -> pa.Table:
    names = [*candidates, label]
    batches, found = [], 0
    for batch in stream.batches(names, dictionary_columns=candidates):
        batches.append(batch.slice(0, n_rows - found))
        found += batches[-1].num_rows
        if found >= n_rows:
            break
    schema = pa.schema([stream.arrow_schema.field(name) for name in names])
    return pa.Table.from_batches(batches).combine_chunks() if batches else schema.empty_table()


def _labels(sample: pa.Table, label: str) -> NDArray[np.float64] | None:
    column = sample.column(label)
    try:
        found = numbers_in(column)
    except InvalidInput:  # dates and the like
        return None
    return None if found.bad.any() else np.where(found.missing, np.nan, found.values)


def _look_at(sample: pa.Table, name: str, label: str, labels: NDArray[np.float64] | None) -> ProposedField:
    values, counts, which = distinct_text(one_chunk(sample.column(name)), name)
    if not len(counts):
        return ProposedField(name, 0, "", 0.0, "no rows")
    top = int(np.argmax(counts))
    objection = ""
    if len(counts) == 1:
        objection = "one value only"
    elif len(counts) > UNIQUE_SHARE * len(which):
        objection = "most values occur once"
    elif labels is not None:
        known = np.isfinite(labels)
        leak = _leak_of(which[known], labels[known], len(values), SUSPICIOUS_SHARE, lambda at: str(values[at].as_py()))
        objection = f"it seems to know {label}: {leak}" if leak else ""
    return ProposedField(name, len(counts), str(values[top].as_py()), float(counts[top] / counts.sum()), objection)


def _leak_of(
    codes: NDArray[Any], outcomes: NDArray[Any], n_values: int, share: float, shown: Callable[[int], str] | None
) -> str:
    """Returns in words what a field's values tell about a label; empty if that may be luck.

    Arguments:
        codes: The value of each row.
        outcomes: Its label.
        n_values: How many values there are.
        share: A field that explains more of the label's entropy tells it.
        shown: What a value is called; None for numbers, of which no single one is looked at.
    """
    explained = explained_share(codes, outcomes, n_values)
    if explained > share:
        return f"it explains {100 * explained:.0f} % of it"
    worst = None if shown is None else always_one_outcome(codes, outcomes, n_values)
    if shown is None or worst is None:
        return ""
    value, outcome, n_rows = worst
    return f"always {outcome} where it is {shown(value)} ({n_rows:,} rows)"


def always_one_outcome(codes: NDArray[Any], outcomes: NDArray[Any], n_values: int) -> tuple[int, int, int] | None:
    """Returns the value of a field with few values whose rows all have one outcome, that outcome, and their number.

    None if there is no such value, or luck could have made it.

    Example:
        >>> outcomes = np.tile([0.0, 1.0], 1000)
        >>> always_one_outcome(np.arange(2000) % 4 == 3, outcomes, 2)
        (1, 1, 500)
    """
    rate = float(outcomes.mean()) if outcomes.size else 0.0
    if not 0.0 < rate < 1.0 or n_values > _FEW_VALUES:
        return None
    rows = np.bincount(codes, minlength=n_values)
    positives = np.bincount(codes, weights=outcomes, minlength=n_values)
    for outcome, chance in ((1, rate), (0, 1.0 - rate)):
        found = (positives == (rows if outcome else 0)) & (rows >= _MANY_ROWS) & (rows * np.log(chance) < _SURE)
        if found.any():
            worst = int(np.argmax(np.where(found, rows, 0)))
            return worst, outcome, int(rows[worst])
    return None


def explained_share(codes: NDArray[Any], outcomes: NDArray[Any], n_values: int) -> float:
    """Returns the share of the label's entropy that a value's rate in the even rows explains in the odd rows.

    Example:
        >>> outcomes = np.tile([0.0, 1.0, 1.0], 100)
        >>> round(explained_share((1 - outcomes).astype(int), outcomes, 2), 2)
        0.99
    """
    rate = float(outcomes.mean()) if outcomes.size else 0.0
    y = outcomes[1::2]
    if not y.size or not 0.0 < rate < 1.0:
        return 0.0
    rows = np.bincount(codes[::2], minlength=n_values)
    positives = np.bincount(codes[::2], weights=outcomes[::2], minlength=n_values)
    p = ((positives + rate) / (rows + 1.0))[codes[1::2]]
    loss = -np.mean(y * np.log(p) + (1.0 - y) * np.log1p(-p))
    alone = -np.mean(y * np.log(rate) + (1.0 - y) * np.log1p(-rate))
    return float(1.0 - loss / alone) if alone > 0.0 else 0.0


@final
@dataclass(frozen=True)
class Doubt:
    """Something that speaks against a column in the part it plays.

    Attributes:
        kind: What it is: `label_missing`, `score_constant`, `score_is_label`, `score_reversed`, `field_leaks` or
            `field_names_rows`.
        text: The argument, what was got, and a hint.
    """

    kind: str
    text: str


def doubts_about_fields(rows: Table) -> Iterator[Doubt]:
    """Yields every field that seems to know a label, or has another value in most of the first rows.

    It knows a label if it explains a quarter of it, or if it has few values and many rows of one of them all had one
    outcome. The first kind was measured after the fact (a watch time, a follow-up action): a model that uses it is
    perfect on the log and useless in service. The second (a request id) teaches a model its rows by heart.
    """
    features, vocabulary = rows.encoding
    sample = np.array(features[:_COPY_ROWS])
    release_pages(features)
    numeric = np.flatnonzero(vocabulary.numeric_knots or ())
    # numbers between two knots count as one value
    sample[:, numeric] = np.where(
        sample[:, numeric] > NULL_ID, (sample[:, numeric] - FIRST_ID) // STEPS + FIRST_ID, sample[:, numeric]
    )
    is_enough = len(sample) >= _ENOUGH_ROWS

    def doubt(kind: str, name: str, what: str, reason: str) -> Doubt:
        argument = "numeric" if name in rows.roles.numeric else "fields"
        return Doubt(
            kind, f"{argument}: got {name!r}, which {what}. Hint: name {argument}= without it if it is {reason}"
        )

    for index, name in enumerate(vocabulary.names):
        n_values = len(np.unique(sample[:, index]))
        if is_enough and n_values > UNIQUE_SHARE * len(sample):
            yield doubt(
                "field_names_rows", name, f"names rows: {n_values:,} values in {len(sample):,} rows", "an id of a row"
            )
    for task, column in rows.labels.items():
        labels, label = np.asarray(column[:_COPY_ROWS]), rows.roles.labels[task]
        known = np.flatnonzero(labels >= 0)
        for index, name in enumerate(vocabulary.names):
            codes, outcomes, size = sample[known, index], labels[known].astype(np.float64), vocabulary.sizes[index]
            shown = None if index in numeric else partial(_value, vocabulary.fields[index])
            leak = _leak_of(codes, outcomes, size, SUSPICIOUS_SHARE if is_enough else _A_COPY, shown)
            if leak:
                yield doubt("field_leaks", name, f"tells {label!r}: {leak}", "known only after the outcome")


def _value(field: Any, number: int) -> str:
    is_listed = isinstance(field, FieldVocabulary) and field.n_buckets is None and number > 0
    return repr(field.values[number - 1].as_py()) if is_listed else f"id {number}"


class DoubtWarning(MonocalWarning):
    """Something speaks against a column in the part it plays."""


def warn_about(doubts: Iterable[Doubt]) -> None:
    """Warns about each of them."""
    for doubt in doubts:
        warnings.warn(doubt.text, DoubtWarning, stacklevel=4)


def doubts_about_scores(rows: Table) -> Iterator[Doubt]:
    """Yields, by column, a score that cannot be meant, and a label that is mostly unknown.

    A score that is the same in every row orders nothing; one that equals the label knows the outcome; one that is lower
    where the outcome happened runs the wrong way, which no monotone map can turn. A null label is a row that was not
    observed: with several tasks that is how a row says that it has no such task, with one task it is more often a join
    that failed.

    Arguments:
        rows: The rows of a fit.
    """
    for task, scores in rows.scores.items():
        score, label = rows.roles.scores.get(task, task), rows.roles.labels[task]
        labels = rows.labels[task]
        known = labels >= 0
        n_unknown = int(known.size - np.count_nonzero(known))
        if len(rows.scores) == 1 and 2 * n_unknown >= known.size:
            yield Doubt(
                "label_missing",
                f"label: got {label!r}, which is null in {n_unknown:,} of {known.size:,} rows; these are not fitted. "
                "Hint: check the join that brought the labels, or leave those rows out",
            )
        seen, outcomes = (scores, labels) if not n_unknown else (scores[known], labels[known])
        if seen.size < _FEWEST_SCORES:
            continue
        if float(np.min(seen)) == float(np.max(seen)):
            text = f"score: got {score!r}, which is {float(seen[0]):g} in every row. Hint: name the column of the score"
            yield Doubt("score_constant", text)
        elif np.array_equal(seen, outcomes):
            text = f"score: got {score!r}, which equals the label {label!r} in every row"
            yield Doubt("score_is_label", f"{text}. Hint: name the column of the score")
        elif _runs_backwards(seen, outcomes):
            yield Doubt(
                "score_reversed",
                f"score: got {score!r}, which is higher where {label!r} did not happen. "
                "Hint: name the score of this label, or one minus a probability and minus a logit of the opposite",
            )


def _runs_backwards(scores: Floats, labels: NDArray[Any]) -> bool:
    """Whether the mean score of positives is far below that of negatives; soft labels count as far as they go."""
    share = np.asarray(labels, dtype=np.float64)
    n_positive, n_negative = float(share.sum()), float(np.sum(1.0 - share))
    if not (n_positive and n_negative):
        return False
    difference = float(share @ scores) / n_positive - float((1.0 - share) @ scores) / n_negative
    error = float(np.std(scores) * np.sqrt(1.0 / n_positive + 1.0 / n_negative))
    return difference < _FAR_BELOW * error


def warn_about_moving(rows: Table) -> None:
    """Warns about numeric fields whose newest values lie where the older rows have none: a time, a counter, an age.

    Later rows lie beyond the last knot of such a field, where the effect stays what it was at the end of the fit.

    Arguments:
        rows: The rows of a fit, in time order.
    """
    time = rows.roles.time
    moving = [name for name in rows.roles.numeric if name != time and is_moving(_numbers(rows, name))]
    for name, what in [
        *([(time, "the column that orders rows")] if time in rows.roles.numeric else []),
        *((name, "whose newest values lie beyond nearly all older ones") for name in moving),
    ]:
        text = (
            f"numeric: got {name!r}, {what}: later rows lie beyond the last knot, where the effect stays what it was "
            "at the end of the fit. Hint: leave it out, or name a column whose values recur, such as the hour"
        )
        warnings.warn(text, MonocalWarning, stacklevel=4)


def is_moving(numbers: Floats) -> bool:
    """Returns whether most of the newest fifth lies beyond 99 % of the rows before it, above or below.

    Arguments:
        numbers: A column in time order; NaN where it is null.

    Example:
        >>> is_moving(np.arange(2_000.0)), is_moving(np.arange(2_000.0) % 24)
        (True, False)
    """
    known = numbers[~np.isnan(numbers)]
    if known.size < _ENOUGH_ROWS:
        return False
    cut = int(known.size * (1.0 - _NEWEST_SHARE))
    low, high = np.quantile(known[:cut], (0.01, 0.99))
    newest = known[cut:]
    return bool(max(np.mean(newest > high), np.mean(newest < low)) > _MOST)


def _numbers(rows: Table, name: str) -> Floats:
    column = rows.fields[name]
    return numbers_or_nan(column.known_values, name)[column.ids]
