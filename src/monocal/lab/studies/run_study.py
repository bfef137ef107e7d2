"""A study from its file to its leaderboard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from monocal.core.files import atomic_file, output_folder
from monocal.lab.ab import AbPlan, run_experiment
from monocal.lab.studies.cell_runner import RunOptions, list_cells, run_cells
from monocal.lab.studies.cells import Cell
from monocal.lab.studies.evaluator import judge
from monocal.lab.studies.joint import JointPlan, run_joint
from monocal.lab.studies.leaderboard import write_results
from monocal.lab.studies.levels_table import levels_table
from monocal.lab.studies.refresh import RefreshPlan, run_refresh
from monocal.lab.studies.rivals_table import rivals_table
from monocal.lab.studies.study import Study, read_entries


@final
@dataclass(frozen=True)
class StudyOutcome:
    """What a run produced.

    Attributes:
        rows: One row per cell and metric; without metrics where the study's table is not the leaderboard.
        leaderboard: Path of the Markdown table.
        n_run: Cells that were run now; finished ones are not repeated.
        n_cells: Cells in all.
        missing: Data sets that are not on this machine, with the reason.
    """

    rows: list[dict[str, Any]]
    leaderboard: Path
    n_run: int
    n_cells: int
    missing: dict[str, str]


def run_study(study: Study, folder: str | Path, options: RunOptions | None = None) -> StudyOutcome:
    """Runs every cell that is not finished, judges all of them and writes the leaderboard.

    Arguments:
        study: What to run.
        folder: Keeps prepared data, cells and results; running again with the same folder goes on where it stopped.
        options: Workers, memory, data folder.
    """
    folder = output_folder(folder)
    chosen = options or RunOptions()
    cells, missing = list_cells(study, folder, chosen)
    n_run = 0 if chosen.finished_only else run_cells(cells, chosen)
    finished = [cell for cell in cells if cell.is_finished]
    if study.table == "leaderboard":
        rows = judge(study, finished)
        path = write_results(study, rows, folder / study.name, missing)
    else:
        rows = [{"data": cell.data_name, "calibrator": cell.spec.name, **cell.result()} for cell in finished]
        path = _write_table(study, finished, folder / study.name, missing)
    return StudyOutcome(rows, path, n_run, len(cells), missing)


def _write_table(study: Study, cells: Sequence[Cell], folder: Path, missing: Mapping[str, str]) -> Path:
    table = rivals_table if study.table == "rivals" else levels_table
    absent = [f"{name}: not run, {reason}\n" for name, reason in missing.items()]
    path = folder / "leaderboard.md"
    with atomic_file(path) as temporary:
        lines = [f"# Study `{study.name}`", "", study.question, "", *table(study, cells), "", *absent]
        temporary.write_text("\n".join(lines), encoding="utf-8")
    return path


def run_file(
    path_or_name: str | Path,
    folder: str | Path,
    options: RunOptions | None = None,
    *,
    smoke_rows: int | None = None,
    data: Sequence[str] = (),
    calibrators: Sequence[str] = (),
    n_epochs: int | None = None,
) -> Path:
    """Runs a study or an online experiment from its file or name and returns the path of its table.

    Arguments:
        path_or_name: A TOML file, or a shipped study: main, promotions, sensitivity, ablation, recipe, scale, ab,
            joint, refresh.
        folder: Keeps everything; running again goes on where it stopped.
        options: Workers, memory, data folder.
        smoke_rows: At most so many rows and one seed, to see that everything runs.
        data: Only these data sets of a study.
        calibrators: Only these calibrators of a study.
        n_epochs: Published recipes of a study learn for so many passes instead of their own number.
    """
    folder = output_folder(folder)
    entries, origin = read_entries(path_or_name)
    chosen, kind = options or RunOptions(), entries.get("kind")
    if kind in ("ab", "joint", "refresh"):
        plan: AbPlan | JointPlan | RefreshPlan
        if kind == "ab":
            plan = AbPlan.of(entries, origin)
        elif kind == "joint":
            plan = JointPlan.of(entries, origin).only(data)
        else:
            plan = RefreshPlan.of(entries, origin).only(data, calibrators)
        plan = plan if smoke_rows is None else plan.scaled(smoke_rows)
        path = folder / plan.name / "leaderboard.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = _run_plan(plan, path.parent, chosen.data_folder)
        with atomic_file(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
        return path
    study = Study.of(entries, origin).only(data, calibrators)
    study = study if n_epochs is None else study.trained_for(n_epochs)
    return run_study(study if smoke_rows is None else study.scaled(smoke_rows), folder, chosen).leaderboard


def _run_plan(plan: AbPlan | JointPlan | RefreshPlan, folder: Path, data_folder: Path | None) -> str:
    if isinstance(plan, AbPlan):
        return run_experiment(plan).markdown()
    return run_joint(plan, folder, data_folder) if isinstance(plan, JointPlan) else run_refresh(plan, data_folder)
