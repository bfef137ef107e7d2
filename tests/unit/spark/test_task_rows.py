"""A task of a barrier stage reads its rows in pieces and holds no texts and no ids."""

import errno
import tempfile

import numpy as np
import pyarrow as pa
import pytest

from monocal.core.errors import InvalidInput
from monocal.lab.simulator import simulate_log
from monocal.spark import task_rows
from monocal.spark.task_rows import rows_of_task
from monocal.tables.roles import Roles
from monocal.tables.table import Table
from monocal.tables.vocabulary import Vocabulary

FIELDS = ["site_id", "device"]
ROLES = Roles.of(score="pctr", label="click", fields=FIELDS, time="timestamp")
TABLE = simulate_log(9_000, seed=1).table()
VOCABULARY = Vocabulary.of_table(TABLE, FIELDS)


def test_pieces_are_the_rows_of_the_whole_table(monkeypatch):
    monkeypatch.setattr(task_rows, "READ_ROWS", 2_500)
    rows, ids = rows_of_task(TABLE.to_batches(max_chunksize=1_000), ROLES, VOCABULARY)
    whole = Table.read(TABLE, ROLES)
    np.testing.assert_array_equal(rows.scores["click"], whole.scores["click"])
    np.testing.assert_array_equal(rows.labels["click"], whole.labels["click"])
    np.testing.assert_array_equal(rows.times, whole.times)
    assert (rows.fields, rows.groups, rows.weights, rows.has_dates) == ({}, None, None, whole.has_dates)
    np.testing.assert_array_equal(ids, VOCABULARY.encode(TABLE))
    assert isinstance(ids, np.memmap)


def test_soft_labels_of_some_pieces_weigh_beside_hard_ones_of_others(monkeypatch):
    monkeypatch.setattr(task_rows, "READ_ROWS", 100)
    labels = np.zeros(300)
    labels[150:] = 0.25
    table = pa.table({"p": np.full(300, 0.2), "y": labels})
    roles = Roles.of(score="p", label="y", soft_labels=True)
    rows, _ = rows_of_task(table.to_batches(max_chunksize=50), roles, Vocabulary(()))
    assert rows.n_rows == 450
    assert rows.weights.sum() == pytest.approx(300)
    assert rows.weights @ rows.labels["y"] == pytest.approx(0.25 * 150)


def test_a_task_without_rows_has_columns_all_the_same():
    rows, ids = rows_of_task([], ROLES, VOCABULARY)
    assert (rows.n_rows, ids.shape, rows.times.dtype) == (0, (0, 2), np.int64)


def test_a_full_disk_is_told_with_the_way_out(monkeypatch):
    class Full:
        def __init__(self, **_):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def tell(self):
            return 0

        def write(self, _):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", Full)
    with pytest.raises(InvalidInput, match=r"No space left.*8 bytes a row.*TMPDIR"):
        rows_of_task(TABLE.to_batches(), ROLES, VOCABULARY)
