"""Results of Spark as Arrow tables."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def collected(df: Any) -> pa.Table:
    """Brings a small Spark table to the driver; Spark 3.5 goes by way of pandas."""
    return df.toArrow() if hasattr(df, "toArrow") else pa.Table.from_pandas(df.toPandas(), preserve_index=False)
