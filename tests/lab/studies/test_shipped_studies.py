"""Every shipped study runs at a smoke size, with all its calibrators."""

from dataclasses import replace

import pytest

from monocal.core.errors import UnknownName
from monocal.lab.studies.cells import finish, run_cell
from monocal.lab.studies.run_study import run_file, run_study
from monocal.lab.studies.study import DataSpec, load_study, read_entries, shipped_studies

ROWS = 800
STUDIES = [name for name in shipped_studies() if "kind" not in read_entries(name)[0]]


def run_here(cells, options):
    """Runs cells in this process, so that torch is loaded once; `test_studies` has them in processes of their own."""
    waiting = {cell.folder: cell for cell in cells}
    for cell in waiting.values():
        try:
            run_cell(cell)
        except ImportError as error:
            finish(cell, {"status": "skipped", "reason": str(error)})
    return len(waiting)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", STUDIES)
def test_shipped_study_runs_at_smoke_size(name, tmp_path, monkeypatch):
    monkeypatch.setattr("monocal.lab.studies.run_study.run_cells", run_here)
    study = load_study(name)
    simulated = [spec for spec in study.data if spec.kind == "simulated"] or [DataSpec("stand-in")]
    outcome = run_study(replace(study, data=tuple(simulated[:1])).scaled(ROWS), tmp_path)
    text = outcome.leaderboard.read_text()
    skipped = {row["calibrator"]: row["reason"] for row in outcome.rows if row["status"] != "ok"}
    # MCGrad is a large package of its own, installed by `make bench-peers`
    assert {name: why for name, why in skipped.items() if "mcgrad" not in why} == {}
    end = ", seed 0 |" if study.table == "levels" else " |"
    named = [calibrator.name for calibrator in study.calibrators if calibrator.name not in skipped]
    assert all(f"| {calibrator}{end}" in text for calibrator in named)


@pytest.mark.parametrize("name", ["ab", "ab_qin"])
def test_shipped_online_experiment_runs_at_smoke_size(tmp_path, name):
    assert "UMC" in run_file(name, tmp_path, smoke_rows=ROWS).read_text()


def test_shipped_study_of_refreshes_runs_at_smoke_size(tmp_path):
    text = run_file("refresh", tmp_path, smoke_rows=7_000, calibrators=["platt"]).read_text()
    assert "| platt, short window | 0." in text
    assert "| umc, refreshed | 0." in text
    assert "| the truth | 0." in text
    assert "promotions: not run (promotions/ranked not found; pass --data-dir)." in text
    with pytest.raises(UnknownName, match="calibrator of 'refresh': got 'plat'"):
        run_file("refresh", tmp_path, calibrators=["plat"])
