"""Calibrating a table of any size: read, score and write in step, in bounded memory."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, final, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.core.files import check_output
from monocal.core.process import progress
from monocal.core.scores import Floats, ScoreSpace, check_level
from monocal.models.model import Model
from monocal.tables.categories import categories_of_text
from monocal.tables.columns import RawRows, numbers_in
from monocal.tables.files import PARQUET_ENDINGS, output_table, typed_columns, write_table
from monocal.tables.source import BATCH_ROWS, TableLike, TableStream, open_table

FUSED_COLUMN = "fused_score"
ENDS = ("lower", "upper")

FINITE = "a finite number in every row"
"""What every column of numbers has to hold."""

OnError = Literal["raise", "null"]
"""What happens to a row without a usable score: the work stops, or the row gets a null."""


def added_columns(
    model: Model, column: str | Mapping[str, str] | None, taken: Sequence[str], *, with_ends: bool = False
) -> dict[str, str]:
    """Returns task to the name of its new column (and the fused score's, and those of intervals, if there are any).

    Arguments:
        model: The model.
        column: A name if there is one task, else task to name; by default `<score>_calibrated`.
        taken: Columns that are there already.
        with_ends: Whether there are columns for the ends of intervals: `<column>_lower` and `<column>_upper`.
    """
    if isinstance(column, str):
        column = {model.task().name: column}
    chosen = dict(column or {})
    for name in chosen:
        model.task(name)
    added = {task.name: chosen.get(task.name, f"{task.score}_calibrated") for task in model.tasks}
    if model.fusion is not None:
        added[FUSED_COLUMN] = FUSED_COLUMN
    if with_ends:
        added |= {f"{name} {end}": f"{added[name]}_{end}" for name in model.task_names for end in ENDS}
    for name in added.values():
        if name in taken or list(added.values()).count(name) > 1:
            raise InvalidInput.of(
                "output column", f"{name!r}, which is there already", "a new name", "choose another with column="
            )
    return added


def scored_columns(
    model: Model,
    rows: RawRows,
    added: Mapping[str, str],
    on_error: OnError = "raise",
    interval: float | None = None,
) -> dict[str, pa.Array]:
    """Returns the new columns of a batch by name; an error names the file, the row in it and what stands there.

    Example:
        >>> from monocal.models.fit import fit
        >>> model = fit({"pctr": [0.1, 0.3] * 50, "click": [0, 1] * 50}, method="none", score="pctr", label="click")
        >>> batch = pa.record_batch({"pctr": [0.5, None, 1.5]})
        >>> rows = RawRows(batch, "monday.parquet", np.arange(10_000, 10_003), "row")
        >>> scored_columns(model, rows, {"click": "p"}, on_error="null")["p"].to_pylist()
        [0.5, None, None]
        >>> scored_columns(model, rows, {"click": "p"})
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: score column 'pctr': got null in row 10,001 of monday.parquet ...
    """
    good = None
    if on_error == "null":
        bad = _bad_rows(model, rows.batch)
        if bad.any():
            good = pa.array(~bad)
            rows = rows.keep(~bad)
    try:
        found = model.predict_batch(rows, interval=interval)
    except InvalidInput as error:
        raise placed_error(numeric_columns(model), rows) or error from error
    answers = found if interval is None else {name: ends.probabilities for name, ends in found.items()}
    new = {added[name]: pa.array(p) for name, p in answers.items()}
    if interval is not None:
        new |= {added[f"{name} {end}"]: pa.array(getattr(ends, end)) for name, ends in found.items() for end in ENDS}
    if model.fusion is not None:
        new[FUSED_COLUMN] = pa.array(model.fusion.fuse(answers))
    if good is None:
        return new
    nulls = pa.nulls(len(good), pa.float64())
    return {name: pc.replace_with_mask(nulls, good, values) for name, values in new.items()}


def check_on_error(on_error: str) -> None:
    """Refuses another word than "raise" or "null"."""
    if on_error not in get_args(OnError):
        raise InvalidInput.of("on_error", repr(on_error), '"raise" or "null"', "say what becomes of rows without score")


def numeric_columns(model: Model) -> dict[str, tuple[str, float, float]]:
    """Returns column to its role and the range of its numbers, for scores and sampling rates of a model."""
    return ranges([task.score for task in model.tasks], model.scores_are, model.sampling_rate)


def ranges(
    scores: Iterable[str], scores_are: ScoreSpace, sampling_rate: float | str | None
) -> dict[str, tuple[str, float, float]]:
    """Returns the same for named columns."""
    low, high = (0.0, 1.0) if scores_are == "probability" else (-np.inf, np.inf)
    columns = dict.fromkeys(scores, ("score", low, high))
    if isinstance(sampling_rate, str):
        columns[sampling_rate] = ("sampling rate", np.nextafter(0.0, 1.0), 1.0)
    return columns


def describe_range(low: float, high: float) -> str:
    """Returns a range in words.

    Example:
        >>> describe_range(0.0, 1.0), describe_range(float(np.nextafter(0.0, 1.0)), 1.0)
        ('numbers from 0 to 1', 'numbers above 0 and up to 1')
    """
    if 0.0 < low < np.finfo(np.float64).tiny:
        return f"numbers above 0 and up to {high:g}"
    return FINITE if np.isinf(low) else f"numbers from {low:g} to {high:g}"


def _bad_rows(model: Model, batch: pa.RecordBatch) -> NDArray[np.bool_]:
    bad = np.zeros(batch.num_rows, dtype=bool)
    for column, (_, low, high) in numeric_columns(model).items():
        bad |= _outside(batch.column(column), low, high)
    return bad


def _outside(values: pa.Array, low: float, high: float) -> NDArray[np.bool_]:
    found = numbers_in(values)
    fits = np.isfinite(found.values) & (found.values >= low) & (found.values <= high)
    bad: NDArray[np.bool_] = found.missing | found.bad | ~fits
    return bad


def placed_error(columns: Mapping[str, tuple[str, float, float]], rows: RawRows) -> InvalidInput | None:
    """Returns the error of the first row with a bad number; None if it is not a matter of one row.

    Arguments:
        columns: Column to its role and the range of its numbers.
        rows: The batch and its place.
    """
    for column, (role, low, high) in columns.items():
        values = rows.batch.column(column)
        try:
            bad = np.flatnonzero(_outside(values, low, high))
        except InvalidInput:
            return None
        if bad.size:
            found = numbers_in(values.slice(int(bad[0]), 1))
            value = values[int(bad[0])].as_py()
            is_number = not found.missing[0] and not found.bad[0] and bool(np.isfinite(found.values[0]))
            shown = "null" if found.missing[0] else repr(value) if found.bad[0] else f"{found.values[0]:g}"
            return InvalidInput.of(
                f"{role} column {column!r}",
                f"{shown} in {rows.unit} {int(rows.numbers[bad[0]]):,} of {rows.file}"
                + f" ({bad.size} such rows in this batch)" * (bad.size > 1),
                describe_range(low, high) if is_number else FINITE,
                "fix or drop those rows" + ", or fit on logits if these are logits" * (is_number and role == "score"),
            )
    return None


DEFAULT_THREADS = 2


@final
@dataclass(frozen=True)
class Applied:
    """What was written.

    Attributes:
        out: The file.
        n_rows: How many rows it has.
        seconds: How long it took.
        columns: Task to the column that was added.
        mean_score: Task to the mean of the ranker's score, as it came.
        mean_calibrated: Task to the mean calibrated probability.
    """

    out: Path
    n_rows: int
    seconds: float
    columns: dict[str, str]
    mean_score: dict[str, float]
    mean_calibrated: dict[str, float]

    @property
    def rows_per_second(self) -> float:
        return self.n_rows / max(self.seconds, 1e-9)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "out": str(self.out), "rows_per_second": self.rows_per_second}


def apply_model(
    model: Model,
    table: TableLike,
    out: str | Path,
    *,
    column: str | Mapping[str, str] | None = None,
    n_threads: int = DEFAULT_THREADS,
    batch_rows: int = BATCH_ROWS,
    show_progress: bool | None = None,
    interval: float | None = None,
) -> Applied:
    """Writes every row and every column of a table again, with the calibrated probabilities added.

    Batches are read and written in order by the caller's thread and scored by `n_threads` others, so memory holds a
    few batches whatever the size of the table. The file appears whole or not at all. From CSV to CSV all other
    columns keep their text to the letter.

    Arguments:
        model: The fitted model.
        table: Anything `open_table` takes.
        out: The file to write; its ending decides between Parquet and CSV.
        column: The new column: a name if there is one task, else task to name. By default `<score>_calibrated`.
        n_threads: Threads that score.
        batch_rows: Rows per batch.
        show_progress: True or False to decide; None shows a bar on a terminal.
        interval: Adds the ends of an interval for every row, `<column>_lower` and `<column>_upper`: how often the true
            probability is meant to lie inside, such as 0.9.
    """
    target, stream = output_table(out), open_table(table)
    check_output(target, stream.paths)
    model.check_columns(stream.column_names)
    if interval is not None:
        check_level(interval)
    added = added_columns(model, column, stream.column_names, with_ends=interval is not None)
    started = time.perf_counter()
    types = stream.arrow_schema
    if _csv_to_csv(stream, target):
        types = pa.schema([(name, pa.string()) for name in types.names])
    schema = types
    for name in added.values():
        schema = schema.append(pa.field(name, pa.float64()))
    categories = model.vocabulary.category_names
    n_rows, sums = 0, np.zeros((2, len(model.tasks)))

    def score(written: RawRows) -> tuple[pa.RecordBatch, Floats]:
        new = scored_columns(model, categories_of_text(written, categories), added, interval=interval)
        kept = typed_columns(written, schema, [name for name in schema.names if name not in new])
        columns = [new[name] if name in new else kept.column(name) for name in schema.names]
        came = [float(np.nansum(numbers_in(written.column(task.score)).values)) for task in model.tasks]
        went = [float(pc.sum(new[added[task.name]]).as_py()) for task in model.tasks]
        return pa.RecordBatch.from_arrays(columns, schema=schema), np.array([came, went])

    with (
        write_table(target, schema) as writer,
        progress("calibrating", stream.n_rows, show=show_progress) as bar,
    ):
        batches = stream.placed_batches(None, batch_rows, categories, as_written=True)
        for batch, sums_of in _in_order(batches, score, max(n_threads, 1)):
            writer.write_batch(batch)
            n_rows += batch.num_rows
            sums += sums_of
            bar.advance(batch.num_rows)
    means = sums / n_rows if n_rows else np.full_like(sums, np.nan)
    mean_score, mean_calibrated = (dict(zip(model.task_names, mean.tolist(), strict=True)) for mean in means)
    return Applied(target, n_rows, time.perf_counter() - started, added, mean_score, mean_calibrated)


Result = TypeVar("Result")


def _in_order(batches: Iterator[RawRows], score: Callable[[RawRows], Result], n_threads: int) -> Iterator[Result]:
    """Yields scored batches in the order they came, with at most a few of them in memory."""
    waiting: deque[Future[Result]] = deque()
    is_first = True
    pool = ThreadPoolExecutor(n_threads, thread_name_prefix="monocal-apply")
    try:
        for batch in batches:
            waiting.append(pool.submit(score, batch))
            # the first batch goes alone: it prepares the model, which threads would otherwise do once each
            if len(waiting) > n_threads or is_first:
                is_first = False
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _csv_to_csv(stream: TableStream, target: Path) -> bool:
    places = (*stream.paths, target)
    return bool(stream.paths) and not any(path.name.lower().endswith(PARQUET_ENDINGS) for path in places)
