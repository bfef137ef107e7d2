"""Written tables are whole or absent."""

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from monocal.core.errors import InvalidInput
from monocal.tables.files import write_table

BATCH = pa.record_batch({"p": [0.1, 0.2], "site": ["a", "b"]})


@pytest.mark.parametrize("name", ["a.parquet", "a.pq", "a.csv", "a.tsv", "a.csv.gz", "a.tsv.zst"])
def test_what_is_written_is_read_back(tmp_path, name):
    with write_table(tmp_path / name, BATCH.schema) as writer:
        writer.write_batch(BATCH)
        writer.write_batch(BATCH)
        assert not (tmp_path / name).exists()
    parse = pa_csv.ParseOptions(delimiter="\t" if ".tsv" in name else ",")
    is_text = ".csv" in name or ".tsv" in name
    found = pa_csv.read_csv(tmp_path / name, parse_options=parse) if is_text else pq.read_table(tmp_path / name)
    assert found.to_pylist() == pa.Table.from_batches([BATCH, BATCH]).to_pylist()


@pytest.mark.parametrize("name", ["a.parquet", "a.csv.gz"])
def test_an_error_leaves_nothing(tmp_path, name):
    with pytest.raises(ZeroDivisionError), write_table(tmp_path / name, BATCH.schema) as writer:
        writer.write_batch(BATCH)
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.txt", "a"])
def test_an_unknown_ending_is_refused(tmp_path, name):
    with (
        pytest.raises(InvalidInput, match=r"expected a file ending in \.parquet"),
        write_table(tmp_path / name, BATCH.schema),
    ):
        pass
