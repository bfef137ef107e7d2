"""Is a field error one of the level? MFRCE beyond its floor as it is, and with the constant that makes totals right.

For every data set of a study whose cells are finished, first seed: predicted over observed, MFRCE beyond its floor, and
both log-loss and MFRCE after all answers of a method were moved by the constant (which nobody could know beforehand).

    monocal bench persistence --out runs --data-dir logs/
    python benchmarks/quality/right_levels.py persistence runs logs/
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from monocal.core.log_loss import log_losses
from monocal.core.spaces import logit, sigmoid
from monocal.lab.studies.cell_runner import RunOptions, list_cells
from monocal.lab.studies.field_errors import FieldErrors
from monocal.lab.studies.levels_table import right_shift
from monocal.lab.studies.study import load_study
from monocal.lab.studies.study_data import PreparedData


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study")
    parser.add_argument("runs", type=Path)
    parser.add_argument("data_folder", type=Path, nargs="?", help="where real logs lie that no package brings")
    parser.add_argument("--data", action="append", default=[], help="only this data set; may be repeated")
    given = parser.parse_args()
    study = load_study(given.study).only(given.data, [])
    cells, _ = list_cells(study, given.runs, RunOptions(data_folder=given.data_folder))
    names = list(dict.fromkeys(cell.spec.name for cell in cells))
    print("| data | " + " | ".join(names) + " |\n| --- |" + " --- |" * len(names))
    for spec in study.data:
        here = {
            cell.spec.name: cell
            for cell in cells
            if cell.data_name == spec.name and cell.seed == study.seeds[0] and cell.is_finished
        }
        if here:
            print(f"| {spec.name} | " + " | ".join(_columns(here, names)) + " |", flush=True)


def _columns(cells, names) -> list[str]:
    data = PreparedData(next(iter(cells.values())).data_folder)
    labels = np.asarray(data.truth().labels, dtype=np.float64)
    errors = FieldErrors(labels, np.asarray(data.test().features))
    found = []
    for name in names:
        answers = cells[name].answers()
        moved = logit(answers) + right_shift(logit(answers), labels)
        found.append(
            f"{answers.sum() / labels.sum():.3f}: {errors.excess(answers):.4f} → {errors.excess(sigmoid(moved)):.4f}, "
            f"{float(log_losses(moved, labels).mean()):.6f}"
        )
    return found


if __name__ == "__main__":
    main()
