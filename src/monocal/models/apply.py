"""Calibrating a table of any size: read, score and write in step, in bounded memory."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from monocal.core.files import check_output
from monocal.core.progress import progress
from monocal.core.row_intervals import check_level
from monocal.models.model import Model
from monocal.models.scored_columns import added_columns, scored_columns
from monocal.tables.categories import categories_of_text
from monocal.tables.columns import numbers_in
from monocal.tables.csv_text import typed_columns
from monocal.tables.row_problems import RawRows
from monocal.tables.stream import BATCH_ROWS, Table, TableStream, open_table
from monocal.tables.writer import output_table, write_table

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


class _Done(NamedTuple):
    batch: pa.RecordBatch
    score_sums: dict[str, float]
    calibrated_sums: dict[str, float]


def apply_model(
    model: Model,
    table: Table,
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
    check_output(target, stream.local_files)
    model.check_columns(stream.column_names)
    if interval is not None:
        check_level(interval)
    added = added_columns(model, column, stream.column_names, with_ends=interval is not None)
    started = time.perf_counter()
    types = stream.arrow_schema
    if _csv_to_csv(stream, target):
        types = pa.schema([(name, pa.string()) for name in types.names])
    schema = _with_columns(types, list(added.values()))
    categories = model.vocabulary.category_names
    n_rows, sums = 0, {name: np.zeros(2) for name in model.task_names}

    def score(written: RawRows) -> _Done:
        rows = categories_of_text(written, categories)
        new = scored_columns(model, rows, added, interval=interval)
        return _score(model, written, added, schema, new)

    with (
        write_table(target, schema) as writer,
        progress("calibrating", stream.n_rows, show=show_progress) as bar,
    ):
        batches = stream.placed_batches(None, batch_rows, categories, as_written=True)
        for done in _in_order(batches, score, max(n_threads, 1)):
            writer.write_batch(done.batch)
            n_rows += done.batch.num_rows
            for name, sum_of in sums.items():
                sum_of += (done.score_sums[name], done.calibrated_sums[name])
            bar.advance(done.batch.num_rows)
    means = {name: sum_of / n_rows if n_rows else np.full(2, np.nan) for name, sum_of in sums.items()}
    return Applied(
        out=target,
        n_rows=n_rows,
        seconds=time.perf_counter() - started,
        columns=added,
        mean_score={name: float(mean[0]) for name, mean in means.items()},
        mean_calibrated={name: float(mean[1]) for name, mean in means.items()},
    )


def _in_order(batches: Iterator[RawRows], score: Any, n_threads: int) -> Iterator[_Done]:
    """Yields scored batches in the order they came, with at most a few of them in memory."""
    waiting: deque[Future[_Done]] = deque()
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


def _score(
    model: Model, rows: RawRows, added: Mapping[str, str], schema: pa.Schema, new: Mapping[str, pa.Array]
) -> _Done:
    kept = typed_columns(rows, schema, [name for name in schema.names if name not in new])
    columns = [new[name] if name in new else kept.column(name) for name in schema.names]
    return _Done(
        pa.RecordBatch.from_arrays(columns, schema=schema),
        {task.name: float(np.nansum(numbers_in(rows.column(task.score)).values)) for task in model.tasks},
        {name: float(pc.sum(new[added[name]]).as_py()) for name in model.task_names},
    )


def _with_columns(schema: pa.Schema, names: list[str]) -> pa.Schema:
    for name in names:
        schema = schema.append(pa.field(name, pa.float64()))
    return schema


def _csv_to_csv(stream: TableStream, target: Path) -> bool:
    return bool(stream.paths) and all(_is_csv(path) for path in (*stream.paths, target))


def _is_csv(path: Path) -> bool:
    return not path.name.lower().endswith((".parquet", ".pq"))
