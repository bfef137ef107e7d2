"""monocal simulate."""

import pyarrow.parquet as pq

from monocal.lab.simulator import WORLDS


def test_writes_a_log(monocal_command, tmp_path):
    ended = monocal_command("simulate", tmp_path / "log.parquet", "--rows", "2_000", "--world", "multitask")
    assert ended.code == 0
    assert ended.out == ""
    table = pq.read_table(tmp_path / "log.parquet")
    assert table.num_rows == 2000
    assert {"timestamp", "user_id", "pctr", "click", "true_p", "plv", "long_view"} <= set(table.column_names)


def test_lists_worlds(monocal_command):
    assert set(monocal_command("simulate", "--list", "--json").json) == {*WORLDS, "search"}
    assert "multitask" in monocal_command("simulate", "--list").out


def test_bad_arguments(monocal_command, tmp_path):
    assert "PATH: got nothing; expected a file ending in .parquet" in monocal_command("simulate").err
    assert "expected a file ending in .parquet" in monocal_command("simulate", tmp_path / "log.csv").err
    ended = monocal_command("simulate", tmp_path / "log.parquet", "--rows", "many")
    assert (ended.code, ended.err) == (
        2,
        "error: --rows: got 'many'; expected a whole number. Hint: write 100_000 or 1e5.\n",
    )
    assert "at least one row" in monocal_command("simulate", tmp_path / "log.parquet", "--rows", "0").err
