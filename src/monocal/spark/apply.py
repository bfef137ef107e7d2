"""Calibrated probabilities as new columns of a Spark table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from monocal.core.errors import InvalidInput
from monocal.core.scores import check_level
from monocal.models.apply import (
    OnError,
    added_columns,
    check_on_error,
    describe_range,
    numeric_columns,
    scored_columns,
)
from monocal.models.model import Model, logit_variance
from monocal.spark.workers import placed, receive, ship

DataFrame = Any
"""A `pyspark.sql.DataFrame`, classic or of Spark Connect."""

_ROW_BITS = 33
"""Spark's `monotonically_increasing_id` has the row in its lower bits and the partition above."""


def apply(
    df: DataFrame,
    model: Model | str | Path,
    *,
    column: str | Mapping[str, str] | None = None,
    on_error: OnError = "raise",
    interval: float | None = None,
) -> DataFrame:
    """Returns the table with the calibrated probabilities added; rows, their order and other columns stay.

    Nothing is computed before the result is asked for. The numbers are those of `monocal apply` to the last bit, on
    classic sessions and on Spark Connect. The model's files travel with the function and are checked where they
    arrive; the workers need monocal installed and nothing else.

    Arguments:
        df: A Spark table with the model's columns.
        model: A model, the folder of one, or its URI; beyond 64 MiB a folder or URI that all workers can read.
        column: The new column: a name if there is one task, else task to name. By default `<score>_calibrated`.
        on_error: "raise" stops at a row without a usable score and names its partition, its row there and the value;
            Spark tries such a task several times before it gives up. "null" gives those rows a null.
        interval: Adds the columns `_lower` and `_upper`, between which the true probability lies so often, such as 0.9.

    Example:
        scored = apply(spark.read.parquet("hdfs:///log"), "s3://models/ctr")
        scored.write.parquet("hdfs:///scored")
    """
    from pyspark.sql.types import DoubleType, StructField, StructType

    check_on_error(on_error)
    loaded, shipped = ship(model)
    loaded.check_columns(df.columns)
    added = added_columns(loaded, column, df.columns, with_ends=interval is not None)
    if interval is not None:
        _check_known(loaded, interval)

    def score(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        received = receive(shipped)
        for rows in placed(batches):
            new = scored_columns(received, rows, added, on_error, interval)
            yield pa.RecordBatch.from_arrays(
                [*rows.batch.columns, *(new[name] for name in added.values())],
                names=[*rows.batch.schema.names, *added.values()],
            )

    # a list of its own: adding to the table's schema would change the table
    fields = [*df.schema.fields, *(StructField(name, DoubleType()) for name in added.values())]
    return df.mapInArrow(score, StructType(fields))


def _check_known(model: Model, interval: float) -> None:
    """Refuses here, with one made-up row, what every task would refuse."""
    check_level(interval)
    half = {name: np.array([0.5]) for name in model.task_names}
    logit_variance(model, np.zeros((1, len(model.field_names)), np.int32), half)


def check_rows(df: DataFrame, model: Model | str | Path) -> None:
    """Refuses a table with a row that cannot be scored, before any work; only the score columns are read.

    The error names the file, if there is one, the partition, the row there and how many such rows there are.
    """
    from pyspark.sql import functions as F

    loaded = ship(model)[0]
    loaded.check_columns(df.columns)
    for column, (role, low, high) in numeric_columns(loaded).items():
        placed_rows = df.select(
            F.col(f"`{column}`").cast("string").alias("text"),
            F.expr(f"try_cast(`{column}` AS double)").alias("value"),  # Spark 4 stops at a text that is no number
            F.input_file_name().alias("file"),
            F.monotonically_increasing_id().alias("row"),
        )
        value = F.col("value")
        # Spark orders NaN above infinity, so one comparison refuses both
        is_good = (value >= float(low)) & (value <= float(high)) & (F.abs(value) < float("inf"))
        is_bad = ~F.coalesce(is_good, F.lit(False))
        first = (
            placed_rows.where(is_bad)
            .groupBy()
            .agg(F.count("*").alias("n"), F.min_by(F.struct("text", "value", "file", "row"), "row").alias("first"))
            .first()
        )
        if first["n"]:
            where, row = first["first"], first["first"]["row"]
            raise InvalidInput.of(
                f"{role} column {column!r}",
                f"{_shown(where['text'], where['value'])} in row "
                f"{row & ((1 << _ROW_BITS) - 1):,} of partition {row >> _ROW_BITS}"
                + f" ({where['file']})" * bool(where["file"])
                + f", {first['n']:,} such rows" * (first["n"] > 1),
                describe_range(low, high),
                'fix or drop those rows; monocal.spark.apply with on_error="null" gives them a null',
            )


def _shown(text: str | None, value: float | None) -> str:
    """What stands in a column of numbers: a number, nothing, or a text that is none."""
    return "null" if text is None else repr(text) if value is None else f"{value:g}"
