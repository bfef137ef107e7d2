"""monocal apply."""

import numpy as np
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

import monocal


def test_adds_a_column_and_keeps_all_others(monocal_command, model_folder, log_file, tmp_path):
    ended = monocal_command("apply", model_folder, log_file, "--out", tmp_path / "scored.parquet")
    assert (ended.code, ended.out) == (0, "")
    assert "wrote 20,000 rows" in ended.err
    before, after = pq.read_table(log_file), pq.read_table(tmp_path / "scored.parquet")
    assert after.drop_columns("pctr_calibrated").equals(before)
    expected = monocal.load(model_folder).predict(str(log_file))
    np.testing.assert_array_equal(after["pctr_calibrated"].to_numpy(), expected)


def test_csv_keeps_the_text_of_other_columns(monocal_command, tmp_path):
    lines = ["id,p,site,note", '007,0.10,a,"x, y"', "008,0.250,b,", '009,0.5,a,"say ""hi"""']
    (tmp_path / "in.csv").write_text("\n".join(lines) + "\n")
    log = {"p": [0.1, 0.2, 0.3, 0.4] * 10, "y": [0, 0, 1, 1] * 10, "site": ["a", "b"] * 20}
    monocal.fit(log, method="wide_logistic", score="p", label="y", fields=["site"]).save(tmp_path / "m")
    ended = monocal_command("apply", tmp_path / "m", tmp_path / "in.csv", "--out", tmp_path / "out.csv")
    assert ended.code == 0
    written = (tmp_path / "out.csv").read_text().splitlines()
    assert written[0] == "id,p,site,note,p_calibrated"
    for line, original in zip(written[1:], lines[1:], strict=True):
        assert line.startswith(original + ",")
    expected = monocal.load(tmp_path / "m").predict(str(tmp_path / "in.csv"))
    np.testing.assert_allclose(
        pa_csv.read_csv(tmp_path / "out.csv")["p_calibrated"].to_numpy(), expected, rtol=0, atol=0
    )


def test_sampling_rate_replaces_the_models(monocal_command, model_folder, log_file, tmp_path):
    for rate in ("1", "0.1"):
        arguments = ("--out", tmp_path / f"{rate}.parquet", "--sampling-rate", rate)
        assert monocal_command("apply", model_folder, log_file, *arguments).code == 0
    full, tenth = (pq.read_table(tmp_path / f"{r}.parquet")["pctr_calibrated"].to_numpy() for r in ("1", "0.1"))
    assert np.all(tenth < full)


def test_several_tasks(monocal_command, videos_file, tmp_path):
    model = monocal.fit(
        str(videos_file), method="platt", tasks={"click": ("click", "pctr"), "long_view": ("long_view", "plv")}
    )
    model.save(tmp_path / "m")
    arguments = ("--out", tmp_path / "s.parquet", "--column", "long_view=p_long")
    assert monocal_command("apply", tmp_path / "m", videos_file, *arguments).code == 0
    assert pq.read_schema(tmp_path / "s.parquet").names[-2:] == ["pctr_calibrated", "p_long"]


def test_folder_of_files_with_other_column_order(monocal_command, model_folder, log_file, tmp_path):
    table = pq.read_table(log_file)
    (tmp_path / "logs").mkdir()
    pq.write_table(table.slice(0, 10_000), tmp_path / "logs" / "1.parquet")
    pq.write_table(table.slice(10_000).select(table.column_names[::-1]), tmp_path / "logs" / "2.parquet")
    ended = monocal_command("apply", model_folder, tmp_path / "logs", "--out", tmp_path / "s.parquet")
    assert ended.code == 0
    assert pq.read_table(tmp_path / "s.parquet").drop_columns("pctr_calibrated").equals(table)


def test_empty_table(monocal_command, model_folder, log_file, tmp_path):
    pq.write_table(pq.read_schema(log_file).empty_table(), tmp_path / "empty.parquet")
    ended = monocal_command("apply", model_folder, tmp_path / "empty.parquet", "--out", tmp_path / "s.parquet")
    assert ended.code == 0
    assert pq.read_table(tmp_path / "s.parquet").num_rows == 0
