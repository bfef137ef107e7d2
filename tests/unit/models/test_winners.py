"""Winners: what was chosen for its forecast is expected to be lower, as far as later winners showed it."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import monocal
from monocal.cli.main import main
from monocal.core.errors import InvalidInput
from monocal.core.spaces import sigmoid
from monocal.judging.evaluate_table import evaluate_table
from monocal.judging.selection import ranks_within
from monocal.models.winners import learn_optimism

FIT = {"method": "wide_logistic", "score": "pctr", "label": "click", "time": "timestamp", "l2": 0.1}
FIELDS = ["site_id", "ad_id", "country", "hour", "position", "device"]


@pytest.fixture(scope="module")
def rounds():
    """A noisy first model chooses one of twenty in the second part; the third is looked at."""
    log = monocal.simulate_log(30_000, seed=0)
    parts = [log.take(slice(k * 10_000, (k + 1) * 10_000)) for k in range(3)]
    first = monocal.fit(parts[0].table(), fields=FIELDS, **FIT)
    chosen = ranks_within(first.predict(parts[1].table()), np.arange(10_000) % 500) == 1
    won = np.concatenate([np.zeros(10_000, dtype=bool), chosen])
    past = log.take(slice(0, 20_000)).table().append_column("won", pa.array(won))
    return past, parts[2], monocal.fit(past, fields=FIELDS, selected="won", **FIT)


def test_the_top_of_a_noisy_model_is_expected_nearer_to_what_it_is(rounds):
    _, fresh, model = rounds
    plain, chosen = model.predict(fresh.table()), model.predict(fresh.table(), selected=True)
    top, truth = ranks_within(plain, np.arange(10_000) % 500) == 1, fresh.true_probabilities
    before, after = (p[top].mean() / truth[top].mean() for p in (plain, chosen))
    learned = model.info["winners"]["tasks"]["click"]
    assert learned["per_variance"] > 0.0
    assert learned["n_selected"] > 100
    assert before > 1.3
    assert abs(np.log(after)) < 0.8 * abs(np.log(before))
    assert (chosen <= plain).all()


def test_nothing_else_changes(rounds):
    past, fresh, model = rounds
    without = monocal.fit(past, fields=FIELDS, **FIT)
    np.testing.assert_array_equal(without.predict(fresh.table()), model.predict(fresh.table()))
    assert "winners" not in without.info
    with pytest.raises(InvalidInput, match='fit it with selected="won"'):
        without.predict(fresh.table(), selected=True)


def test_rows_that_were_not_chosen_by_errors_teach_nothing():
    """A tenth at random; errors of the forecast are there, and nobody chose them."""
    random = np.random.default_rng(0)
    z = random.normal(-1.0, 0.7, 40_000)
    labels = (random.random(40_000) < sigmoid(z)).astype(float)
    found = learn_optimism(z, np.full(40_000, 0.5), labels, np.ones(40_000), random.random(40_000) < 0.1)
    assert found["per_variance"] == 0.0
    assert found["error"] > 0.0


def test_command_line_and_evaluation_of_winners(rounds, tmp_path, capsys):
    past, fresh, _ = rounds
    pq.write_table(past.slice(8000), tmp_path / "past.parquet")
    table = fresh.table()
    top = ranks_within(table["pctr"].to_numpy(), np.arange(10_000) % 500) == 1
    pq.write_table(table.append_column("won", pa.array(top)), tmp_path / "fresh.parquet")
    fit = ["fit", str(tmp_path / "past.parquet"), "--score", "pctr", "--label", "click", "--fields", ",".join(FIELDS)]
    fit += ["--method", "wide_logistic", "--set", "l2=0.1", "--time", "timestamp", "--out", str(tmp_path / "m")]
    assert main([*fit, "--selected", "won"]) == 0
    out = str(tmp_path / "out.parquet")
    assert main(["apply", str(tmp_path / "m"), str(tmp_path / "fresh.parquet"), "--out", out, "--selected"]) == 0
    model = monocal.load(tmp_path / "m")
    chosen = model.predict(table, selected=True)
    np.testing.assert_array_equal(pq.read_table(out)["pctr_calibrated"].to_numpy(), chosen)
    found = evaluate_table(tmp_path / "fresh.parquet", model=model, selected="won").tasks["click"]
    observed = fresh.labels[top].mean()
    assert found.selections["after"].selected_pcoc == pytest.approx(chosen[top].mean() / observed)
    assert main([*fit[:-1], str(tmp_path / "n"), "--selected", "weather"]) == 2
    assert "weather" in capsys.readouterr().err


def test_what_cannot_learn_from_winners_says_why(rounds):
    past, _, _ = rounds
    few = past.slice(0, 5000)
    with pytest.raises(InvalidInput, match="no selected row"):
        monocal.fit(few, fields=["device"], selected="won", **FIT)
    with pytest.raises(InvalidInput, match="selected: got the method 'platt'"):
        monocal.fit(past, method="platt", score="pctr", label="click", selected="won")
