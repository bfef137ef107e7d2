"""Labels that come late: a simulated log as it looks before all of them are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa


def delay_labels(
    table: pa.Table,
    *,
    label: str = "click",
    time: str = "timestamp",
    by: str = "ad_id",
    window: float = 7.0,
    period: float = 10.0,
    seed: int = 0,
) -> pa.Table:
    """Returns the table as it is seen at the moment of its last event, with the moment each positive label came.

    Delays are exponential and cut at the window; every value of a field has its own mean, log-uniform between a
    tenth of the window and the whole of it. Times are stretched to `period` days.

    Arguments:
        table: A simulated log.
        label: The label; those that have not come yet become 0.
        time: Its time column; it becomes whole seconds.
        by: The field whose values differ in their delays, such as the advertiser.
        window: Days after which no label comes.
        period: Days that the log covers.
        seed: Seed of the delays.

    Returns:
        The table with the columns `label_time` (null where none has come) and `final_<label>` (what it will be).
    """
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    moments = table[time].to_numpy().astype(np.float64)
    seconds = (moments - moments.min()) / np.ptp(moments) * period * 86_400.0
    codes = table[by].combine_chunks().dictionary_encode().indices.to_numpy()
    means = window * 86_400.0 * np.exp(rng.uniform(np.log(0.1), np.log(1.0), int(codes.max()) + 1))
    mean = means[codes]
    # exponential given that it is within the window
    reach = -np.expm1(-window * 86_400.0 / mean)
    came = seconds + -mean * np.log1p(-rng.random(seconds.size) * reach)
    final = table[label].to_numpy()
    seen = (final == 1) & (came <= seconds.max())
    label_time = pa.array(came.astype(np.int64), mask=~seen)
    changed = table.set_column(table.column_names.index(label), label, pa.array(seen.astype(np.int8)))
    changed = changed.set_column(changed.column_names.index(time), time, pa.array(seconds.astype(np.int64)))
    return changed.append_column("label_time", label_time).append_column(f"final_{label}", pa.array(final))
