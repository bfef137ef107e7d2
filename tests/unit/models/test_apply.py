"""Applying a model to a table of any size."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import monocal
from monocal.core.errors import InvalidInput
from monocal.models import Fusion
from monocal.models import apply as applying
from monocal.models.apply import apply_model
from monocal.tables.source import TableStream

LOG = monocal.simulate_log(6_000, seed=1).table()
MODEL = monocal.fit(LOG, method="wide_logistic", score="pctr", label="click", fields=["site_id", "device"])


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_memory_holds_a_few_batches_whatever_the_size(tmp_path, monkeypatch, n_threads):
    read, written, most = 0, 0, 0
    original = TableStream.placed_batches

    def counted(self, *arguments, **options):
        nonlocal read, most
        for batch in original(self, *arguments, **options):
            read += 1
            most = max(most, read - written)
            yield batch

    class Writer:
        def write_batch(self, batch):
            nonlocal written
            written += 1

    from contextlib import contextmanager

    @contextmanager
    def no_file(path, schema):
        yield Writer()

    monkeypatch.setattr(TableStream, "placed_batches", counted)
    monkeypatch.setattr(applying, "write_table", no_file)
    apply_model(MODEL, LOG, tmp_path / "s.parquet", n_threads=n_threads, batch_rows=100)
    assert read == written == 60
    assert most <= n_threads + 1


def test_rows_and_threads_do_not_change_the_answer(tmp_path):
    done = apply_model(MODEL, LOG, tmp_path / "a.parquet", n_threads=3, batch_rows=97)
    assert done.n_rows == 6_000
    found = pq.read_table(tmp_path / "a.parquet")["pctr_calibrated"].to_numpy()
    np.testing.assert_array_equal(found, MODEL.predict(LOG))
    assert done.mean_calibrated["click"] == pytest.approx(found.mean())
    assert done.mean_score["click"] == pytest.approx(LOG["pctr"].to_numpy().mean())


def test_types_of_other_columns_are_kept(tmp_path):
    table = LOG.slice(0, 10)
    extras = {
        "dictionary": pa.array(["x", None] * 5).dictionary_encode(),
        "large": pa.array(["y"] * 10, pa.large_string()),
        "when": pa.array(range(10), pa.timestamp("ms", tz="UTC")),
        "list": pa.array([[1, 2]] * 10),
        "nothing": pa.nulls(10),
    }
    for name, column in extras.items():
        table = table.append_column(name, column)
    pq.write_table(table, tmp_path / "in.parquet")
    apply_model(MODEL, tmp_path / "in.parquet", tmp_path / "out.parquet")
    before, after = pq.read_table(tmp_path / "in.parquet"), pq.read_table(tmp_path / "out.parquet")
    assert after.drop_columns("pctr_calibrated").equals(before)
    assert after.schema.field("dictionary").type == before.schema.field("dictionary").type


def test_fused_scores_are_a_column(tmp_path):
    apply_model(MODEL.with_fusion(Fusion({"click": 2.0})), LOG, tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet")
    np.testing.assert_allclose(table["fused_score"].to_numpy(), 2.0 * table["pctr_calibrated"].to_numpy())


def test_an_error_names_the_file_and_the_row_in_it(tmp_path):
    (tmp_path / "days").mkdir()
    pq.write_table(LOG, tmp_path / "days/monday.parquet")
    scores = LOG["pctr"].to_pylist()
    scores[7] = None
    broken = LOG.set_column(LOG.column_names.index("pctr"), "pctr", pa.array(scores, pa.float64()))
    pq.write_table(broken, tmp_path / "days/tuesday.parquet")
    with pytest.raises(InvalidInput, match=r"got null in row 7 of tuesday\.parquet"):
        apply_model(MODEL, tmp_path / "days", tmp_path / "a.parquet", batch_rows=5)
    assert not (tmp_path / "a.parquet").exists()
