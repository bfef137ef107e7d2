"""Memory of the data pipeline does not grow with the rows of a log."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import monocal

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's account of memory")

N_FIELDS = 48
# the blocks are made smaller in proportion to the logs, which are small because tests should be quick
CHILD = """
import json, sys
from monocal.neural import batches
from monocal.lab.prepare import histories, time_order
from monocal.tables import source as tables
tables.TableStream.placed_batches.__defaults__ = (None, 8192, ())
batches.WINDOW_ROWS = 16384
time_order._CHUNK_ROWS, time_order._BUCKET_ROWS = 8192, 16384
histories._WINDOW_ROWS = 8192
from monocal.lab.prepare.encoder import encode_log
from monocal.tables.roles import Roles

log, folder, n_fields, history = sys.argv[1:]
schema = Roles(label="y", fields=[f"f{i}" for i in range(int(n_fields))], time="t")

def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024

encoded = encode_log(log, schema, folder, history=history or None)
assert (encoded.histories is not None) == bool(history)
after_encoding = peak()
every = {"features": encoded.features}
shuffled = batches.shuffled_batches(every, 4096, seed=1, epoch=0)
total = sum(int(batch.features[:, 0].sum()) for batch in encoded.batches(4096))
total += sum(int(batch["features"][:, 0].sum()) for batch in shuffled)
print(json.dumps([after_encoding, peak(), total]))
"""


def _peaks(n_rows, folder, history):
    rng = np.random.default_rng(0)
    columns = {f"f{i}": rng.integers(0, 50, n_rows).astype(np.int16) for i in range(N_FIELDS)}
    path = folder / f"{n_rows}.parquet"
    table = pa.table({"y": rng.integers(0, 2, n_rows), "t": rng.permutation(n_rows), **columns})
    pq.write_table(table, path, row_group_size=20_000)
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), str(folder / f"log{n_rows}"), str(N_FIELDS), history],
        env={**os.environ, "PYTHONPATH": str(Path(monocal.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    encoding, batches, total = json.loads(child.stdout)
    assert total > 0
    return encoding, batches


@pytest.mark.parametrize("history", ["", "f0"], ids=["rows alone", "with histories"])
def test_memory_does_not_grow_with_rows_even_if_they_must_be_sorted(tmp_path, history):
    small = _peaks(80_000, tmp_path, history)
    large = _peaks(400_000, tmp_path, history)
    # the ids of the additional rows alone are 59 MiB
    growth = [b - a for a, b in zip(small, large, strict=True)]
    assert max(growth) < 25, f"peaks of {small} MiB became {large} MiB"
