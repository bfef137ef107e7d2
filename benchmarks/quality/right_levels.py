"""Is a field error one of the level? MFRCE beyond its floor as it is, and with the constant that makes totals right.

For every data set of a study whose cells are finished, first seed: predicted over observed, MFRCE beyond its floor, and
both log-loss and MFRCE after all answers of a method were moved by the constant (which nobody could know beforehand).
What the constant leaves may be shares below 1: `--in-full` fits umc once more with every field believed in full (the
network's share is learned).

    monocal lab bench persistence --out runs --data-dir logs/
    python benchmarks/quality/right_levels.py persistence runs logs/ --in-full
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from monocal.core.scores import Floats, log_losses, logit, sigmoid
from monocal.lab.studies.cell_runner import RunOptions, list_cells
from monocal.lab.studies.cells import fit_and_predict
from monocal.lab.studies.evaluator import FieldErrors
from monocal.lab.studies.levels_table import right_shift
from monocal.lab.studies.study import load_study
from monocal.lab.studies.study_data import PreparedData

IN_FULL = "UMC, monocal default, fields believed in full"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study")
    parser.add_argument("runs", type=Path)
    parser.add_argument("data_folder", type=Path, nargs="?", help="where real logs lie that no package brings")
    parser.add_argument("--data", action="append", default=[], help="only this data set; may be repeated")
    parser.add_argument("--in-full", action="store_true", help="fit umc again with the shares of all fields at 1")
    given = parser.parse_args()
    study = load_study(given.study).only(given.data, [])
    cells, _ = list_cells(study, given.runs, RunOptions(data_folder=given.data_folder))
    names = list(dict.fromkeys(cell.spec.name for cell in cells))
    head = [*names, *([IN_FULL] if given.in_full else [])]
    print("| data | " + " | ".join(head) + " |\n| --- |" + " --- |" * len(head))
    for spec in study.data:
        here = {
            cell.spec.name: cell
            for cell in cells
            if cell.data_name == spec.name and cell.seed == study.seeds[0] and cell.is_finished
        }
        if here:
            data = PreparedData(next(iter(here.values())).data_folder)
            answers = {name: here[name].answers() for name in names}
            if given.in_full:
                answers[IN_FULL] = _believed_in_full(data, study.seeds[0])
            print(f"| {spec.name} | " + " | ".join(_columns(data, answers)) + " |", flush=True)


def _believed_in_full(data: PreparedData, seed: int) -> Floats:
    shares = dict.fromkeys(range(len(data.field_names)), 1.0)
    answers, _ = fit_and_predict("umc", {"carry": shares}, data.calibration(), data.test(), seed)
    return answers


def _columns(data: PreparedData, answers: dict[str, Floats]) -> list[str]:
    labels = np.asarray(data.truth().labels, dtype=np.float64)
    errors = FieldErrors(labels, np.asarray(data.test().features))
    found = []
    for p in answers.values():
        moved = logit(p) + right_shift(logit(p), labels)
        found.append(
            f"{p.sum() / labels.sum():.3f}: {errors.excess(p):.4f} → {errors.excess(sigmoid(moved)):.4f}, "
            f"{float(log_losses(moved, labels).mean()):.6f}"
        )
    return found


if __name__ == "__main__":
    main()
