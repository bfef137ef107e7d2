"""Where in its partition a batch of rows is, so that an error can name a row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from monocal.tables.problems import RawRows


def placed(batches: Iterator[Any]) -> Iterator[RawRows]:
    """Says where in its partition each batch begins."""
    from pyspark import TaskContext

    context = TaskContext.get()
    name = "the partition" if context is None else f"partition {context.partitionId()}"
    first_row = 0
    for batch in batches:
        yield RawRows(batch, name, np.arange(first_row, first_row + batch.num_rows), "row")
        first_row += batch.num_rows
