"""Rows of a table as an encoded log in memory."""

from __future__ import annotations

from monocal.core.samples import check_weights
from monocal.logs.encoded_log import EncodedLog
from monocal.logs.label_copies import warn_about_copies
from monocal.tables.roles import Roles
from monocal.tables.source import Table
from monocal.tables.table import Rows, read
from monocal.tables.vocabulary import Vocabulary


def log_of_rows(rows: Rows, *, min_count: int = 1, max_size: int | None = None) -> EncodedLog:
    """Encodes rows with the vocabulary that they give themselves.

    Arguments:
        rows: Rows that were read, in time order.
        min_count: Field values with fewer rows count as unseen.
        max_size: The most values a field keeps; the most frequent stay.

    Example:
        >>> table = {"click": [0, 1, 0], "pctr": [0.1, 0.2, 0.3], "site": ["a", "b", "b"]}
        >>> log = log_of_rows(read(table, Roles.of(score="pctr", label="click", fields=["site"])))
        >>> log.features[:, 0].tolist(), log.vocabulary["site"].values.to_pylist()
        ([2, 1, 1], ['b', 'a'])
    """
    fields = {name: rows.fields[name] for name in rows.roles.model_fields}
    vocabulary = Vocabulary.of_columns(fields, min_count=min_count, max_size=max_size, numeric=rows.roles.numeric)
    log = EncodedLog.of(
        vocabulary.encode_columns(fields, rows.n_rows),
        rows.labels,
        vocabulary,
        rows.roles,
        times=rows.times,
        groups=rows.groups,
        weights=None if rows.weights is None else check_weights(rows.weights, rows.n_rows),
        scores=rows.scores,
        sampling_rates=rows.rates if rows.roles.rate_column else None,
    )
    warn_about_copies(log)
    return log


def encode_table(table: Table, roles: Roles, *, min_count: int = 1, max_size: int | None = None) -> EncodedLog:
    """Reads a table and encodes its rows in time order, as `log_of_rows`.

    Arguments:
        table: Anything `open_table` takes.
        roles: Which column plays which part.
        min_count: Field values with fewer rows count as unseen.
        max_size: The most values a field keeps; the most frequent stay.
    """
    return log_of_rows(read(table, roles).in_time_order(), min_count=min_count, max_size=max_size)
