"""The promotions log as a table to fit: weeks 32 to 41 with a score that earlier weeks know."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from monocal.lab.sources.complete_journey import FIELDS, CompleteJourney, installed_folder

FIRST_WEEK, END = 32, 42
PRIOR_ROWS = 20.0
"""Rows with the rate of all products that are added to those of each."""

COLUMNS = {"score": "score", "label": "sold", "time": "week", "fields": ",".join(FIELDS)}


def write_promotions(path: Path) -> Path:
    """Writes the rows; the score is the product's rate of sales in earlier weeks, drawn to that of all.

    What a fit costs hardly depends on how good the score is, so no ranker is trained for it.
    """
    counts: dict[str, list[float]] = {}
    total = [0.0, 0.0]
    writer: pq.ParquetWriter | None = None
    for batch in CompleteJourney().open(installed_folder()).batches():
        week = int(batch.column("week")[0].as_py())
        if week >= END:
            break
        products, sold = batch.column("product_id").dictionary_encode(), batch.column("sold").to_numpy()
        names, ids = products.dictionary.to_pylist(), products.indices.to_numpy()
        if week < FIRST_WEEK:
            own = np.bincount(ids, minlength=len(names)), np.bincount(ids, sold, minlength=len(names))
            for name, n_rows, n_sold in zip(names, *own, strict=True):
                found = counts.setdefault(name, [0.0, 0.0])
                found[0] += n_rows
                found[1] += n_sold
            total[0] += len(sold)
            total[1] += sold.sum()
            continue
        rate = total[1] / total[0]
        of_product = np.array([counts.get(name, (0.0, 0.0)) for name in names])
        scores = (of_product[:, 1] + PRIOR_ROWS * rate) / (of_product[:, 0] + PRIOR_ROWS)
        columns = {name: batch.column(name) for name in ("sold", "week", *FIELDS)} | {"score": scores[ids]}
        table = pa.table({name: _plain(column) for name, column in columns.items()})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()
    return path


def _plain(column: pa.Array | np.ndarray) -> pa.Array | np.ndarray:
    return column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column
