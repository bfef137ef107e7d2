"""Tables with soft labels: read, fitted, held out, judged, refused."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import monocal
from monocal.cli.main import main
from monocal.evaluation.table import evaluate_table


@pytest.fixture(scope="module")
def table():
    log = monocal.simulate_log(6000, seed=1, world="affine")
    soft = np.where(np.arange(6000) % 2 == 0, log.true_probabilities, log.labels)
    return log.table().append_column("expected", pa.array(soft))


@pytest.mark.extras
def test_a_model_remembers_that_its_labels_are_soft(table, tmp_path):
    model = monocal.fit(table.slice(0, 3000), method="platt", score="pctr", label="expected", soft_labels=True)
    expected = float(np.mean(table.slice(0, 3000)["expected"]))
    assert model.info["tasks"]["expected"]["label_rate"] == pytest.approx(expected, rel=1e-6)
    assert float(model.predict(table.slice(0, 3000)).mean()) == pytest.approx(expected, rel=1e-6)
    loaded = monocal.load(model.save(tmp_path / "model"))
    found = evaluate_table(table.slice(3000), model=loaded)
    assert found.n_rows == 3000
    report = monocal.report(loaded, table.slice(3000), tmp_path / "report.html", n_bootstrap=20)
    assert "3,000 rows" in report.read_text()
    following = loaded.refresh(table.slice(3000))
    assert monocal.gate(loaded, following, fresh_rows()).n_rows == 2000


def fresh_rows():
    log = monocal.simulate_log(2000, seed=7, world="affine")
    return log.table().append_column("expected", pa.array(log.true_probabilities))


def test_the_option_is_named_where_it_is_missing(table, tmp_path, capsys):
    pq.write_table(table, tmp_path / "log.parquet")
    command = ["fit", str(tmp_path / "log.parquet"), "--score", "pctr", "--label", "expected", "--method", "platt"]
    assert main([*command, "--out", str(tmp_path / "model")]) == 2
    assert "--soft-labels" in capsys.readouterr().err
    assert main([*command, "--out", str(tmp_path / "model"), "--soft-labels"]) == 0
    assert main(["evaluate", str(tmp_path / "model"), str(tmp_path / "log.parquet")]) == 0
