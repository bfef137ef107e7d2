"""monocal refresh and inspect --history."""

import pyarrow as pa
import pyarrow.parquet as pq

import monocal


def test_refresh_gate_and_history(monocal_command, tmp_path):
    log = monocal.simulate_log(30_000, seed=2).table()
    columns = {"score": "pctr", "label": "click", "time": "timestamp", "fields": ["device"]}
    model = monocal.fit(log.slice(0, 10_000), method="wide_logistic", **columns).save(tmp_path / "model")
    today = tmp_path / "today.parquet"
    pq.write_table(log.slice(10_000), today)
    done = monocal_command("refresh", model, today, "--out", tmp_path / "next", "--gate", "--max-harm", 0.02)
    assert done.code == 0
    assert done.out.startswith("generation 2: 20,000 rows after ")
    assert "wrote generation 2" in done.err
    looked = monocal_command("inspect", tmp_path / "next", "--history")
    assert looked.out.splitlines()[0] == "generation 1: fitted on 10,000 rows"
    assert monocal_command("inspect", tmp_path / "next", "--history", "--json").json["generation"] == 2
    again = monocal_command("refresh", tmp_path / "next", today, "--out", tmp_path / "again")
    assert again.code == 2
    assert "about 100% of which the model learned from" in again.err
    assert not (tmp_path / "again").exists()
    zeros = log.slice(10_000).set_column(log.column_names.index("click"), "click", pa.array([0] * 20_000))
    pq.write_table(zeros, today)
    empty = monocal_command("refresh", model, today, "--out", tmp_path / "again")
    assert empty.code == 2
    assert "check the join" in empty.err
