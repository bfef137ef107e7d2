"""Written tables are whole or absent."""

import pyarrow as pa
import pytest

from monocal.core.errors import InvalidInput
from monocal.tables.files import write_table
from monocal.tables.source import open_table

BATCH = pa.record_batch({"p": [0.1, 0.2], "site": ["a", "b"]})


@pytest.mark.parametrize("name", ["a.parquet", "a.pq", "a.csv", "a.tsv", "a.csv.gz", "a.tsv.zst"])
def test_what_is_written_is_read_back(tmp_path, name):
    with write_table(tmp_path / name, BATCH.schema) as writer:
        writer.write_batch(BATCH)
        writer.write_batch(BATCH)
        assert not (tmp_path / name).exists()
    stream = open_table(tmp_path / name)
    assert stream.arrow_schema == BATCH.schema
    assert stream.n_rows == (4 if name in ("a.parquet", "a.pq") else None)
    rows = [row for batch in stream.batches(["site", "p"]) for row in batch.to_pylist()]
    # text has no types: what a value means follows from its part
    kind = float if stream.n_rows else str
    assert rows == [{"site": "a", "p": kind(0.1)}, {"site": "b", "p": kind(0.2)}] * 2


@pytest.mark.parametrize("name", ["a.txt", "a"])
def test_an_unknown_ending_is_refused(tmp_path, name):
    with (
        pytest.raises(InvalidInput, match=r"expected a file ending in \.parquet"),
        write_table(tmp_path / name, BATCH.schema),
    ):
        pass
