"""Streaming gives the same rows as drawing at once, whatever the batch size, also through a file."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from monocal.core.errors import InvalidInput
from monocal.lab.simulator import simulate_batches, simulate_log, write_simulated_log
from monocal.lab.simulator.log import concatenate
from monocal.lab.simulator.truth import BLOCK_ROWS


@pytest.mark.parametrize("batch_rows", [997, BLOCK_ROWS, 3 * BLOCK_ROWS, 10 * BLOCK_ROWS])
def test_streaming_gives_the_same_rows_whatever_the_batch_size(batch_rows):
    n = 2 * BLOCK_ROWS + 1234
    whole = simulate_log(n, seed=4, world="multitask")
    batches = list(simulate_batches(n, seed=4, world="multitask", batch_rows=batch_rows))
    assert all(batch.n_rows == batch_rows for batch in batches[:-1])
    together = concatenate(batches)
    for name in ("features", "users", "times", "logits", "true_logits", "labels"):
        assert np.array_equal(getattr(whole, name), getattr(together, name))
    for task in whole.tasks:
        assert np.array_equal(whole.task_scores[task], together.task_scores[task])
        assert np.array_equal(whole.task_labels[task], together.task_labels[task])


def test_the_table_has_raw_strings_scores_labels_and_truths():
    log = simulate_log(500, world="multitask")
    table = log.table()
    assert table.column_names == [
        "timestamp",
        *log.field_names,
        *("pctr", "click", "true_p"),
        *("pev", "effective_view", "true_pev"),
        *("plv", "long_view", "true_plv"),
    ]
    assert table.schema.field("video_id").type == pa.string()
    assert table["video_id"].to_pylist() == [f"video_{value}" for value in log.features[:, 1]]
    assert np.array_equal(table["pctr"].to_numpy(), log.scores)
    assert np.array_equal(table["true_p"].to_numpy(), log.true_probabilities)


def test_a_written_log_is_the_drawn_log(tmp_path):
    n = 16 * BLOCK_ROWS + 77
    path = write_simulated_log(tmp_path / "deep" / "log.parquet", n, seed=9)
    assert pq.ParquetFile(path).num_row_groups == 2
    assert pq.read_table(path).equals(simulate_log(n, seed=9).table())
    assert [entry.name for entry in path.parent.iterdir()] == ["log.parquet"]


def test_bad_requests_leave_no_file(tmp_path):
    with pytest.raises(InvalidInput, match="at least one row"):
        write_simulated_log(tmp_path / "log.parquet", 0)
    with pytest.raises(InvalidInput, match="batch_rows: got 0"):
        next(simulate_batches(10, batch_rows=0))
    assert list(tmp_path.iterdir()) == []
