"""The next generation of a model: what it knows, what it refuses, and that the old one stays."""

import numpy as np
import pyarrow as pa
import pytest

import monocal
from monocal.core.errors import InvalidInput
from monocal.models.artefact import load_model
from monocal.models.inspect import inspect_history
from monocal.monitoring.refresh import refresh

COLUMNS = {"score": "pctr", "label": "click", "time": "timestamp"}


@pytest.fixture(scope="module")
def log():
    return monocal.simulate_log(40_000, seed=4).table()


@pytest.fixture(scope="module")
def model(log):
    return monocal.fit(log.slice(0, 20_000), method="wide_logistic", fields=["site_id", "device"], **COLUMNS)


@pytest.fixture(scope="module")
def today(log):
    return log.slice(20_000, 10_000)


def replaced(table, name, column):
    return table.set_column(table.column_names.index(name), name, pa.array(column))


def test_generations_know_their_parents(log, model, today, tmp_path):
    second = model.refresh(today)
    third = second.refresh(log.slice(30_000))
    assert (second.info["generation"], third.info["generation"]) == (2, 3)
    assert third.info["parent"] == second.fingerprint
    assert [entry["parent"] for entry in third.info["history"]] == [model.fingerprint, second.fingerprint]
    loaded = load_model(third.save(tmp_path / "third"))
    assert loaded.fingerprint == third.fingerprint
    assert np.array_equal(loaded.predict(log), third.predict(log))
    lines = inspect_history(tmp_path / "third").text.splitlines()
    assert lines[0] == "generation 1: fitted on 20,000 rows"
    assert lines[1].startswith(f"generation 2: 10,000 rows after {model.fingerprint[:8]}; click: level ")
    assert "site_id ±" in lines[2]


def test_new_values_get_ids_and_old_ones_keep_theirs(model, today):
    sites = today["site_id"].to_pylist()
    renamed = replaced(today, "site_id", ["brand-new" if n < 3_000 else site for n, site in enumerate(sites)])
    following = model.refresh(renamed)
    old, new = model.vocabulary["site_id"].values, following.vocabulary["site_id"].values
    assert new.slice(0, len(old)).equals(old)
    assert "brand-new" in new.to_pylist()[len(old) :]
    assert following.info["history"][-1]["new_values"]["site_id"] == len(new) - len(old)
    row = {"pctr": [0.2], "site_id": ["brand-new"], "device": [today["device"][0].as_py()]}
    assert following.predict(row)[0] != model.predict(row)[0]


def test_the_same_day_twice_is_refused(model, today):
    second = model.refresh(today)
    with pytest.raises(InvalidInput, match="10,000 rows, about 100% of which the model learned from"):
        second.refresh(today)
    shuffled = today.drop_columns(["timestamp"]).take(np.random.default_rng(0).permutation(10_000))
    with pytest.raises(InvalidInput, match="10,000 rows, about 100% of which the model learned from"):
        second.refresh(shuffled)


def test_older_rows_than_the_parents_are_refused(log, model, today):
    with pytest.raises(InvalidInput, match=r"column 'timestamp': got 5,000 of 15,000 rows not later than the last one"):
        model.refresh(log.slice(15_000, 15_000))
    with pytest.raises(InvalidInput, match="not later"):
        model.refresh(today).refresh(log.slice(25_000, 10_000))


def test_labels_that_did_not_arrive_are_refused(model, today):
    zeros = replaced(today, "click", np.zeros(10_000))
    with pytest.raises(InvalidInput, match=r"0 positives in 10,000 rows, for which the scores expect .*check the join"):
        model.refresh(zeros)
    with pytest.raises(InvalidInput, match="only 1s in 10000 rows"):
        model.refresh(replaced(today, "click", np.ones(10_000)))
    with pytest.raises(InvalidInput, match="got only nulls"):
        model.refresh(replaced(today, "click", pa.nulls(10_000, pa.int64())))


def test_other_columns_and_another_score_space_are_refused(model, today):
    with pytest.raises(InvalidInput, match="field column .the model was fitted with it.: got 'device'"):
        model.refresh(today.drop_columns(["device"]))
    with pytest.raises(InvalidInput, match="scores_are: got 'logit'; expected the model's score space, 'probability'"):
        model.refresh(today, scores_are="logit")
    p = today["pctr"].to_numpy()
    with pytest.raises(InvalidInput, match="score"):
        model.refresh(replaced(today, "pctr", np.log(p / (1 - p))))


def test_a_gate_keeps_a_bad_day_out(model, log, tmp_path):
    folder = model.save(tmp_path / "model")
    before = load_model(folder).fingerprint
    good = refresh(folder, log.slice(20_000), out=tmp_path / "next", gate=True, by=("device",), max_harm=0.05)
    assert good.written
    assert load_model(tmp_path / "next").fingerprint == good.model.fingerprint
    labels = log["click"].to_numpy()[20_000:].copy()
    # for most of the day clicks were counted for everybody
    labels[:12_000] = np.maximum(labels[:12_000], np.arange(12_000) % 3 == 0)
    bad = refresh(folder, replaced(log.slice(20_000), "click", labels), out=tmp_path / "bad", gate=True)
    assert not bad.written
    assert not (tmp_path / "bad").exists()
    assert bad.verdict.tasks["click"].overall.verdict == "worse"
    assert load_model(folder).fingerprint == before
    with pytest.raises(InvalidInput, match="another folder than the model's"):
        refresh(folder, log.slice(20_000), out=folder)
