"""Rows to fit and rows to judge, as a model would meet them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from monocal.core.samples import Ids
from monocal.logs.encoded_log import EncodedLog
from monocal.logs.known_values import keep_values_of
from monocal.logs.row_log import log_of_rows
from monocal.tables.split import DEFAULT_SHARE, Holdout, hold_out_recent
from monocal.tables.table import Rows
from monocal.tables.vocabulary import binned


@final
@dataclass(frozen=True, eq=False)
class HeldOut:
    """Rows in time order, cut into those to fit and those to judge.

    Attributes:
        fit: Rows to fit, encoded with the values they have themselves.
        test: The held-out rows, with all of their values told apart.
        features: Field ids of the held-out rows in the encoding of `fit`: what a model fitted on it would see.
        holdout: How the rows were cut.
        all_rows: Returns both together, with the values of both, for a model that is fitted again after judging; None
            if they were not kept.
    """

    fit: EncodedLog
    test: Rows
    features: Ids
    holdout: Holdout
    all_rows: Callable[[], EncodedLog] | None


def hold_out(
    rows: Rows | EncodedLog,
    share: float = DEFAULT_SHARE,
    *,
    min_count: int = 1,
    max_size: int | None = None,
    keep_all: bool = False,
) -> HeldOut:
    """Cuts off the most recent rows.

    A log that was prepared with parts is cut into them; any other rows by their most recent share.

    Arguments:
        rows: Rows that were read, in any order, or a log.
        share: The share that is held out; 0 holds out nothing.
        min_count: Field values with fewer rows count as unseen.
        max_size: The most values a field may have; rarer ones count as unseen.
        keep_all: Whether `all_rows` will be asked for. Without it the result does not hold on to rows that were read,
            whose ids would otherwise be in memory twice during a fit.
    """
    limits = {"min_count": min_count, "max_size": max_size}
    if isinstance(rows, Rows):
        return _cut_rows(rows.in_time_order(), share, limits, keep_all)
    if rows.folder is not None and {"calibration", "test"} <= set(rows.parts):
        return _cut_by_parts(rows)
    return _cut_log(rows, share, limits)


def _cut_rows(rows: Rows, share: float, limits: dict[str, int | None], keep_all: bool) -> HeldOut:
    # the pieces of a row with a soft label stay together
    units = np.arange(rows.n_rows) if rows.units is None else rows.units
    firsts = np.flatnonzero(np.diff(units, prepend=-1))
    times = None if rows.times is None else rows.times[firsts]
    cut = hold_out_recent(firsts.size, share, times=times, time_column=rows.roles.time, is_clock=rows.has_dates)
    first_test = int(firsts[cut.n_fit]) if cut.n_test else rows.n_rows
    fitted = log_of_rows(rows.take(slice(0, first_test)), **limits)  # type: ignore[arg-type]
    # a slice would be a view, and hold on to all rows
    test = rows.take(slice(first_test, None) if keep_all else np.arange(first_test, rows.n_rows))
    features = fitted.vocabulary.encode_columns(test.fields, test.n_rows)
    again = (lambda: log_of_rows(rows, **limits)) if keep_all else None  # type: ignore[arg-type]
    return HeldOut(fitted, binned(test, fitted.vocabulary), features, cut, again)


def _cut_by_parts(log: EncodedLog) -> HeldOut:
    fitted, test = log.part("calibration"), log.part("test")
    explanation = (
        f"the log's own parts: fitted on the {fitted.n_rows:,} rows of 'calibration', "
        f"held out the {test.n_rows:,} rows of 'test'"
    )
    cut = Holdout(fitted.n_rows, test.n_rows, explanation)
    both = (log.parts["calibration"].start, log.parts["test"].stop)
    return HeldOut(fitted, test.rows(), test.features, cut, lambda: log.slice(*both))


def _cut_log(log: EncodedLog, share: float, limits: dict[str, int | None]) -> HeldOut:
    cut = hold_out_recent(log.n_rows, share, times=log.times, time_column=log.roles.time)
    known = keep_values_of(log, 0, cut.n_fit, **limits)  # type: ignore[arg-type]
    return HeldOut(
        known.slice(0, cut.n_fit),
        log.slice(cut.n_fit, log.n_rows).rows(),
        known.features[cut.n_fit :],
        cut,
        lambda: keep_values_of(log, 0, log.n_rows, **limits),  # type: ignore[arg-type]
    )
