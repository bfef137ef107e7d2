"""monocal watch: days, state, alarms and exit codes."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import monocal

DAY = np.timedelta64(1, "D")


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """A model that hands scores through, and a maker of days."""
    place = tmp_path_factory.mktemp("watched")
    rng = np.random.default_rng(0)
    fitted = {"pctr": rng.uniform(0.02, 0.3, 1_000), "click": rng.integers(0, 2, 1_000), "store_id": ["a", "b"] * 500}
    monocal.fit(fitted, method="none", score="pctr", label="click", fields=["store_id"]).save(place / "model")

    def day(number, factor=1.0, n_rows=4_000, seed=0, labels=True):
        rng = np.random.default_rng([seed, number])
        p = rng.uniform(0.02, 0.3, n_rows)
        stores = rng.choice(["a", "b"], n_rows)
        truth = np.where(stores == "b", factor, 1.0) * p
        columns = {"pctr": p, "store_id": stores, "placement": rng.integers(0, 3, n_rows)}
        columns["ts"] = np.full(n_rows, np.datetime64("2024-05-01", "us") + number * DAY)
        if labels:
            columns["click"] = (rng.random(n_rows) < truth).astype(np.int8)
        path = place / f"day-{seed}-{number}-{factor}-{labels}.parquet"
        pq.write_table(pa.table(columns), path)
        return path

    return place / "model", day


def test_days_one_by_one_until_an_alarm(monocal_command, watched, tmp_path):
    model, day = watched
    options = ["--time", "ts", "--by", "store_id,placement", "--state", tmp_path / "state"]
    for number in range(3):
        ended = monocal_command("watch", model, day(number), *options)
        assert ended.code == 0, ended.err
        assert f"2024-05-0{number + 1}" in ended.out
    assert "0 of 12 charts in alarm after 3 periods with labels; chance of any false alarm at most 5%" in ended.err
    again = monocal_command("watch", model, day(2), *options)
    assert again.code == 2
    assert "rows of 2024-05-03, which was read before" in again.err
    assert "--since 2024-05-04" in again.err
    waiting = monocal_command("watch", model, day(3, labels=False), *options)
    assert waiting.code == 0
    assert "no labels" in waiting.out
    for number in range(3, 8):
        ended = monocal_command("watch", model, day(number, factor=1.6), *options, "--json")
        if ended.code == 4:
            break
    assert ended.code == 4
    found = ended.json
    assert found["is_alarmed"]
    assert ("store_id", "b") in {(alarm["field"], alarm["value"]) for alarm in found["alarms"]}
    assert found["days"][0]["unseen"] == {"store_id": 0.0}


def test_eighty_columns_are_enough(monocal_command, watched, tmp_path):
    model, day = watched
    options = ("--time", "ts", "--by", "store_id", "--state", tmp_path / "s")
    ended = monocal_command("watch", model, day(0, factor=2.0, n_rows=123_456), *options)
    assert ended.code == 4
    assert "store_id = b" in ended.out
    assert max(len(line.rstrip()) for line in ended.out.splitlines()) <= 80


def test_the_state_is_beside_the_model_unless_said(monocal_command, watched, tmp_path):
    model, day = watched
    shutil.copytree(model, tmp_path / "mine")
    assert monocal_command("watch", tmp_path / "mine", day(0), "--time", "ts").code == 0
    state = json.loads((tmp_path / "mine.watch" / "watch.json").read_text())
    assert (state["periods"], state["settings"]["tolerance"]) == ([19844], 0.05)
    ended = monocal_command("watch", tmp_path / "mine", day(1), "--time", "ts", "--max-unseen", 0.1, "--max-drift", 0)
    assert ended.code in (0, 4)
    monocal.load(tmp_path / "mine")
