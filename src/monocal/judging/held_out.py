"""Rows to fit and rows to judge, as a model would meet them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monocal.logs.encoded_log import EncodedLog
from monocal.logs.holdout import DEFAULT_SHARE, Holdout, hold_out_recent
from monocal.logs.known_values import keep_values_of
from monocal.tables.stream import Table, open_table


@final
@dataclass(frozen=True, eq=False)
class FittedRows:
    """A log cut into rows to fit and rows to judge.

    Attributes:
        fit: Rows to fit, encoded with the values they have themselves.
        test: The held-out rows in the same encoding, as a model fitted on `fit` would see them.
        test_values: Field ids of the held-out rows with all of their values told apart, for metrics.
        holdout: How the log was cut.
        all_rows: Returns both together, with the values of both, for a model that is fitted again after judging.
    """

    fit: EncodedLog
    test: EncodedLog
    test_values: NDArray[np.int32]
    holdout: Holdout
    all_rows: Callable[[], EncodedLog]


def split_log(
    log: EncodedLog,
    holdout: float = DEFAULT_SHARE,
    *,
    min_count: int = 1,
    max_size: int | None = None,
    is_clock: bool = False,
) -> FittedRows:
    """Cuts a log into rows to fit and rows to judge.

    A log that was prepared with parts is cut into them; any other log by its most recent share.
    """
    if log.folder is not None and {"calibration", "test"} <= set(log.parts):
        fitted, test = log.part("calibration"), log.part("test")
        explanation = (
            f"the log's own parts: fitted on the {fitted.n_rows:,} rows of 'calibration', "
            f"held out the {test.n_rows:,} rows of 'test'"
        )
        return FittedRows(
            fitted,
            test,
            test.features,
            Holdout(fitted.n_rows, test.n_rows, explanation),
            lambda: log.slice(log.parts["calibration"].start, log.parts["test"].stop),
        )
    cut = hold_out_recent(log.n_rows, holdout, times=log.times, time_column=log.schema.time, is_clock=is_clock)
    known = keep_values_of(log, 0, cut.n_fit, min_count=min_count, max_size=max_size)
    return FittedRows(
        known.slice(0, cut.n_fit),
        known.slice(cut.n_fit, log.n_rows),
        log.features[cut.n_fit :],
        cut,
        lambda: keep_values_of(log, 0, log.n_rows, min_count=min_count, max_size=max_size),
    )


def is_clock_column(table: Table, time: str) -> bool:
    """Says whether a time column holds dates (told as such) or mere numbers."""
    kind = open_table(table).arrow_schema.field(time).type
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_string(kind))
