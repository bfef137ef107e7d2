"""The vocabulary of a Spark table: counted where the rows are, ordered as on one machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from monocal.core.errors import UnknownName
from monocal.spark.workers import collected
from monocal.tables.categories import distinct_text
from monocal.tables.value_index import most_frequent, without_long_texts
from monocal.tables.vocabulary import FieldVocabulary, Vocabulary

_SCHEMA = "field int, value string, rows long"


def vocabulary(
    df: Any,
    fields: Sequence[str],
    *,
    min_count: int = 1,
    max_size: int | None = None,
    hashed_fields: Mapping[str, int] | None = None,
) -> Vocabulary:
    """Returns the values of fields with their ids: those of `Vocabulary.of_table`, in the same order.

    Values are counted batch by batch, added up by Spark and pruned there; only what is kept comes to the driver, some
    60 bytes a value. For fields of more than a few million values raise `min_count`, or hash them.

    Arguments:
        df: The table.
        fields: Categorical columns, in the order of ids.
        min_count: Values with fewer rows count as unseen.
        max_size: The most values a field may have; rarer ones count as unseen.
        hashed_fields: Field to number of buckets, for fields whose values are hashed instead of listed.
    """
    from pyspark.sql import functions as F

    hashed = dict(hashed_fields or {})
    for name in hashed:
        if name not in fields:
            raise UnknownName.among("hashed field", name, fields)
    for name in fields:
        if name not in df.columns:
            raise UnknownName.among("field column", name, df.columns)
    listed = [name for name in fields if name not in hashed]

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number, name in enumerate(listed):
                values, rows, _ = distinct_text(batch.column(name), name)
                values, rows = without_long_texts(values, rows, name)
                of_field = pa.repeat(pa.scalar(number, pa.int32()), len(values))
                yield pa.RecordBatch.from_arrays([of_field, values, pa.array(rows)], names=["field", "value", "rows"])

    found: dict[str, pa.Array] = {}
    if listed:
        columns = df.select(*(f"`{name}`" for name in listed))
        added = columns.mapInArrow(counted, _SCHEMA).groupBy("field", "value").agg(F.sum("rows").alias("rows"))
        kept = added.where(F.col("rows") >= max(min_count, 1))
        if max_size is not None:
            parts = [
                kept.where(F.col("field") == number).orderBy(F.desc("rows"), F.asc_nulls_last("value")).limit(max_size)
                for number in range(len(listed))
            ]
            kept = parts[0]
            for part in parts[1:]:
                kept = kept.unionAll(part)
        table = collected(kept)
        numbers = table.column("field").to_numpy()
        for number, name in enumerate(listed):
            mine = table.filter(pa.array(numbers == number))
            values = mine.column("value").combine_chunks().cast(pa.string())
            found[name] = most_frequent(values, mine.column("rows").to_numpy(), max_size=max_size)
    return Vocabulary(
        tuple(
            FieldVocabulary.hashed(name, hashed[name]) if name in hashed else FieldVocabulary(name, found[name])
            for name in fields
        )
    )
