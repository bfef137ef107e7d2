"""monocal threshold, from a saved model and a table."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

import monocal
from monocal.lab.simulator import simulate_log


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    home = tmp_path_factory.mktemp("threshold")
    log = simulate_log(30_000, seed=4).table()
    fields = ["site_id", "device"]
    model = monocal.fit(log.slice(0, 10_000), method="wide_logistic", score="pctr", label="click", fields=fields)
    model.save(home / "model")
    pq.write_table(log.slice(10_000), home / "val.parquet")
    return home


def test_the_cut_off_is_that_of_the_model_and_keeps_its_promise_there(place, monocal_command):
    ended = monocal_command("threshold", place / "model", place / "val.parquet", "--recall", "0.8", "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)["overall"]
    rows = pq.read_table(place / "val.parquet")
    p, y = monocal.load(place / "model").predict(rows), rows["click"].to_numpy()
    assert found["n_taken"] == np.count_nonzero(p >= found["value"])
    assert found["observed"] == pytest.approx(y[p >= found["value"]].sum() / y.sum())
    assert found["observed"] >= 0.8


def test_groups_get_their_own_and_those_without_enough_rows_say_so(place, monocal_command):
    ended = monocal_command("threshold", place / "model", place / "val.parquet", "--precision", "0.3", "--by", "device")
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert lines[0].startswith("precision at least 0.3 with probability 0.95")
    n_values = len(set(pq.read_table(place / "val.parquet")["device"].to_pylist()))
    assert lines[1].strip().startswith(f"{n_values} values of device, each tested at 0.01 = 0.05/{n_values}")
    assert sum("takes" in line or "none:" in line for line in lines) == n_values
    assert "none:" in ended.out
    assert max(len(line) for line in lines) <= 80


def test_many_groups_are_told_in_short_the_largest_first(place, monocal_command):
    call = ("threshold", place / "model", place / "val.parquet", "--recall", "0.5", "--by", "site_id")
    ended = monocal_command(*call)
    assert ended.code == 0, ended.err
    values, counts = np.unique(pq.read_table(place / "val.parquet")["site_id"].to_pylist(), return_counts=True)
    told = [line for line in ended.out.splitlines() if "takes" in line or "none:" in line]
    assert len(told) == 20
    assert told[0].split()[0] == values[np.argmax(counts)]
    assert f"and {len(values) - 20:,} rarer values" in ended.out
    assert len(json.loads(monocal_command(*call, "--json").out)["by"]) == len(values)


def test_rows_that_the_model_was_fitted_on_are_warned_about(place, monocal_command):
    log = simulate_log(30_000, seed=4).table()
    pq.write_table(log.slice(0, 12_000), place / "seen.parquet")
    for name, warned in (("val.parquet", False), ("seen.parquet", True)):
        ended = monocal_command("threshold", place / "model", place / name, "--recall", "0.8")
        assert ended.code == 0, ended.err
        assert ("fitted on about 8" in ended.err) == warned


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "exactly one"),
        (["--precision", "1.5"], "between 0 and 1"),
        (["--precision", "0.5", "--by", "devise"], "device"),
    ],
)
def test_mistakes_are_told_in_one_line(place, monocal_command, words, said):
    ended = monocal_command("threshold", place / "model", place / "val.parquet", *words)
    assert ended.code == 2
    assert said in ended.err
