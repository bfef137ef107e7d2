"""Runs cells of a study; one JSON row for each: metrics, noise floors, CPU seconds, difference to the default.

Values are those of `evaluate`; floors are means of 3 redraws of the labels from the row's own answers. The difference
in log-loss is to the answers of `--against` with the same seed (its first one where it has no such seed), with the
wider of two 95 % intervals: over groups of rows (users, stores), and over 200 blocks of consecutive rows.

    monocal lab bench main --list
    python benchmarks/quality/study_rows.py main --data-dir FOLDER --out runs > rows.jsonl
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import numpy as np
from evidence import N_BLOCKS
from level import code_version

from monocal.core.scores import log_losses, logit
from monocal.evaluation.evaluate import evaluate
from monocal.lab.studies.cell_runner import RunOptions, list_cells, run_cells
from monocal.lab.studies.cells import Cell
from monocal.lab.studies.evaluator import FieldErrors, errors_to_truth, pcoc_by_time
from monocal.lab.studies.study import load_study
from monocal.lab.studies.study_data import PreparedData


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study")
    parser.add_argument("--data-dir", type=Path, help="where real logs lie that no package brings")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="keeps cells; finished ones are not run again")
    parser.add_argument("--data", action="append", default=[], help="only this data set; may be repeated")
    parser.add_argument("--calibrator", action="append", default=[], help="only this one; may be repeated")
    parser.add_argument("--against", default="UMC, monocal default")
    parser.add_argument("--code", default=code_version(), help="what rows say of the code")
    parser.add_argument("--finished-only", action="store_true", help="run nothing; rows of the cells that are finished")
    given = parser.parse_args()
    study = load_study(given.study).only(given.data, given.calibrator)
    options = RunOptions(workers=1, data_folder=given.data_dir)
    cells, _ = list_cells(study, given.out, options)
    if not given.finished_only:
        run_cells(cells, options)
    periods = {spec.name: spec.period for spec in study.data}
    for name in dict.fromkeys(cell.data_name for cell in cells):
        here = [cell for cell in cells if cell.data_name == name and cell.is_finished]
        here = [cell for cell in here if cell.result()["status"] == "ok"]
        for row in rows_of(here, given.against, with_periods=bool(periods[name])):
            row |= {"study": study.name, "code": given.code, "machine": f"{os.cpu_count()} cores, 1 thread"}
            print(json.dumps(row), flush=True)


def rows_of(cells: list[Cell], against: str, *, with_periods: bool) -> list[dict]:
    if not cells:
        return []
    data = PreparedData(cells[0].data_folder)
    truth, test = data.truth(), data.test()
    labels = np.asarray(truth.labels, dtype=np.float64)
    errors = FieldErrors(labels, test.features)
    main_field = data.field_names.index(data.facts["main_field"])
    groups = None if truth.groups is None else np.unique(np.asarray(truth.groups), return_inverse=True)[1]
    losses = {(cell.spec.name, cell.seed): log_losses(logit(cell.answers()), labels) for cell in cells}
    seen, rows = set(), []
    for cell in cells:
        if cell.folder in seen:  # a method without randomness has one folder for all seeds
            continue
        seen.add(cell.folder)
        answers = cell.answers()
        found = evaluate(labels, answers, metrics=["auc", "pcoc", "ece"], n_floor=3, n_bootstrap=2)
        by_field, floor = errors.of(answers), errors.floor(answers)
        loss = losses[cell.spec.name, cell.seed]
        row = {"data": cell.data_name, "rows": data.facts["n_calibration"], "judged_rows": len(labels)}
        row |= {"fields": len(by_field), "method": cell.spec.name, "seed": cell.seed}
        row |= {"log_loss": round(float(loss.mean()), 6)}
        row |= {name: round(found.value(name), 5) for name in ("pcoc", "ece", "auc")}
        row |= {"ece_floor": round(found.floor("ece"), 5), "mfrce": round(float(by_field.mean()), 5)}
        row |= {"mfrce_floor": round(float(floor.mean()), 5), "frce": round(float(by_field[main_field]), 5)}
        if truth.true_probabilities is not None:
            row |= {key: round(value, 6) for key, value in errors_to_truth(answers, truth.true_probabilities).items()}
        if with_periods and truth.times is not None:
            by_time = pcoc_by_time(answers, np.asarray(truth.labels), np.asarray(truth.times))
            row["pcoc_by_period"] = {str(when): round(value, 4) for when, value in by_time.items()}
        row["cpu_s"] = round(cell.result()["cpu_seconds"], 2)
        other = losses.get((against, cell.seed), losses.get((against, 0)))
        if other is not None and cell.spec.name != against:
            row |= {"against": against, **difference(loss - other, groups)}
        rows.append(row)
    return rows


def difference(gaps: np.ndarray, groups: np.ndarray | None) -> dict[str, float]:
    """Returns the mean and the wider of two 95 % intervals: rows of a group, or of a block of time, counted as one."""
    mean = float(gaps.mean())
    blocks = np.arange(len(gaps)) * N_BLOCKS // len(gaps)
    sums = [np.bincount(units, gaps - mean) for units in (blocks, groups) if units is not None]
    half = 1.96 * max(float(np.sqrt(np.sum(one**2))) for one in sums) / len(gaps)
    return {"difference": round(mean, 7), "low": round(mean - half, 7), "high": round(mean + half, 7)}


if __name__ == "__main__":
    main()
