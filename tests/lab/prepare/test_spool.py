import numpy as np
import pyarrow as pa
import pytest

from monocal.lab.prepare.reading import LogRows, Spool


def _rows(start, n):
    fields = pa.record_batch(
        {"a": pa.array([f"v{i % 3}" for i in range(start, start + n)]), "b": pa.array(range(start, start + n))}
    )
    group = pa.array([None if i % 4 == 0 else f"g{i}" for i in range(start, start + n)])
    return LogRows(n, fields, group, {"label:y": np.arange(start, start + n, dtype=np.int8), "time": np.arange(n)})


@pytest.fixture
def spool(tmp_path):
    return Spool.write(tmp_path / "rows.arrow", (_rows(start, 5) for start in (0, 5, 10)))


def test_rows_come_back_in_order_with_all_columns(spool):
    assert spool.n_rows == 15
    found = list(spool.read(fields=True, group=True, numbers=("label:y", "time")))
    assert [value for rows in found for value in rows.fields["b"].to_pylist()] == [str(i) for i in range(15)]
    assert [value for rows in found for value in rows.group.to_pylist()][:5] == [None, "g1", "g2", "g3", None]
    assert np.array_equal(np.concatenate([rows.numbers["label:y"] for rows in found]), np.arange(15))
    assert found[0].numbers["label:y"].dtype == np.int8


def test_a_dictionary_holds_the_values_of_its_batch_only(tmp_path):
    large = pa.array([f"v{i}" for i in range(10_000)]).dictionary_encode()
    rows = [LogRows(2, pa.record_batch({"a": large.slice(7, 2)}), None, {"label:y": np.zeros(2, np.int8)})]
    spool = Spool.write(tmp_path / "rows.arrow", rows)
    assert len(next(spool.read(fields=True)).fields["a"].dictionary) == 2


def test_an_empty_spool(tmp_path):
    spool = Spool.write(tmp_path / "rows.arrow", [])
    assert spool.n_rows == 0
    assert list(spool.read(fields=True)) == []
