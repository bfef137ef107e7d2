"""Memory that was freed goes back to the system, also what lies between arrays that stay."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from monocal.core.freed_memory import give_back_freed_memory

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library has no call for it")


def anonymous_bytes() -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def test_holes_between_arrays_that_stay_are_given_back():
    give_back_freed_memory()
    pieces = [np.ones(8192) for _ in range(2000)]
    full = anonymous_bytes()
    kept = pieces[::2]
    del pieces
    give_back_freed_memory()
    assert full - anonymous_bytes() > 0.8 * sum(piece.nbytes for piece in kept)


READING = """
import sys
import pyarrow.parquet as pq
from monocal.tables.roles import Roles
from monocal.tables.table import Table

def anonymous_bytes():
    lines = open("/proc/self/status").read().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))

log = pq.ParquetFile(sys.argv[1])
roles = Roles.of(score="p", label="y", time="t", fields=[name for name in log.schema_arrow.names if name[0] == "f"])
Table.read(sys.argv[2], roles)  # libraries are loaded
before = anonymous_bytes()
rows = Table.read(sys.argv[1], roles)
kept = sum(column.ids.nbytes for column in rows.fields.values()) + 17 * rows.n_rows
print((anonymous_bytes() - before) / kept)
"""


def test_reading_a_table_leaves_behind_little_more_than_its_columns(tmp_path):
    n_rows, texts = 1_000_000, pa.array([f"value {k}" for k in range(30_000)])
    random = np.random.default_rng(0)
    table = {
        f"f{k}": pa.DictionaryArray.from_arrays(random.integers(0, len(texts), n_rows).astype(np.int32), texts)
        for k in range(6)
    }
    table |= {"y": random.integers(0, 2, n_rows), "p": random.uniform(0.1, 0.9, n_rows), "t": np.arange(n_rows)}
    pq.write_table(pa.table(table), tmp_path / "log.parquet", row_group_size=262_144)
    pq.write_table(pa.table(table).slice(0, 100), tmp_path / "start.parquet")
    # in a process of its own: this one has holes enough that a table fits into
    command = [sys.executable, "-c", READING, str(tmp_path / "log.parquet"), str(tmp_path / "start.parquet")]
    # older releases of Arrow's own pool keep what their threads freed, whatever one asks for
    pool = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}
    share = float(subprocess.run(command, capture_output=True, text=True, check=True, env=pool).stdout)
    assert share < 2.0
