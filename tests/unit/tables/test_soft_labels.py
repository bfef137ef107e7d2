"""Tables with soft labels: read, fitted, held out, judged, refused."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import monocal
from monocal.cli.main import main
from monocal.core.errors import InvalidInput
from monocal.evaluation.table import evaluate_table
from monocal.tables.roles import Roles
from monocal.tables.table import Table


@pytest.fixture(scope="module")
def table():
    log = monocal.simulate_log(6000, seed=1, world="affine")
    soft = np.where(np.arange(6000) % 2 == 0, log.true_probabilities, log.labels)
    return log.table().append_column("expected", pa.array(soft))


def test_several_tasks_share_one_cut_and_keep_every_mean():
    """A child with the smaller label is positive only where its parent is; an unknown label stays unknown."""
    labels = {"view": [0.8, 1.0, 0.5], "buy": [0.3, 0.25, None], "p": [0.1, 0.2, 0.3], "w": [1.0, 2.0, 1.0]}
    roles = Roles.of(tasks={"view": ("view", "p"), "buy": ("buy", "p")}, weight="w", soft_labels=True)
    rows = Table.read(labels, roles)
    view, buy, weight, unit = rows.labels["view"], rows.labels["buy"], rows.weights, rows.units
    for row, (q, weighs) in enumerate([(0.8, 1.0), (1.0, 2.0), (0.5, 1.0)]):
        here = unit == row
        assert weight[here].sum() == pytest.approx(weighs)
        assert weight[here & (view == 1)].sum() == pytest.approx(q * weighs)
    assert weight[(unit == 1) & (buy == 1)].sum() == pytest.approx(0.5)
    assert (view[buy == 1] == 1).all()
    assert (buy[unit == 2] == -1).all()
    assert rows.n_table_rows == 3


def test_the_pieces_of_a_row_are_never_torn_apart(table):
    """Without a time column the cut falls between rows of the table."""
    for n in (11, 12, 13):
        judged = monocal.fit_and_evaluate(
            table.slice(0, 500 + n), method="platt", score="pctr", label="expected", soft_labels=True
        )
        assert judged.holdout.n_fit + judged.holdout.n_test == 500 + n
        assert judged.tasks["expected"].n_rows == judged.holdout.n_test


def test_a_model_remembers_that_its_labels_are_soft(table, tmp_path):
    model = monocal.fit(table.slice(0, 3000), method="platt", score="pctr", label="expected", soft_labels=True)
    expected = float(np.mean(table.slice(0, 3000)["expected"]))
    assert model.info["tasks"]["expected"]["label_rate"] == pytest.approx(expected, rel=1e-6)
    assert float(model.predict(table.slice(0, 3000)).mean()) == pytest.approx(expected, rel=1e-6)
    loaded = monocal.load(model.save(tmp_path / "model"))
    found = evaluate_table(table.slice(3000), model=loaded)
    assert found.n_rows == 3000
    report = monocal.write_report(loaded, table.slice(3000), tmp_path / "report.html", n_bootstrap=20)
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


def test_what_needs_hard_labels_refuses():
    with pytest.raises(InvalidInput, match="soft_labels"):
        Roles.of(score="p", label="y", soft_labels=True, event_time="t", label_time="came")
    with pytest.raises(InvalidInput, match=r"1\.5 at row 1"):
        Table.read({"y": [0.5, 1.5], "p": [0.1, 0.1]}, Roles.of(score="p", label="y", soft_labels=True))
