"""One data set of a study from its finished cells: every metric once, intervals of log-loss alone.

Values are those of `evaluate`; differences in log-loss to the reference (the study's, or `--reference`) have a 95 %
interval that lets rows of a group (user, store) depend on each other; floors are means of 3 redraws. `monocal lab bench
STUDY --finished-only` gives intervals of every metric and takes much longer.

    monocal lab bench paper --out runs --data promotions --epochs 1 --workers 1
    python benchmarks/quality/finished_cells.py paper promotions runs --epochs 1
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from monocal.core.scores import log_losses, logit
from monocal.evaluation.evaluate import evaluate
from monocal.lab.studies.cell_runner import RunOptions, list_cells
from monocal.lab.studies.evaluator import FieldErrors, errors_to_truth
from monocal.lab.studies.study import load_study
from monocal.lab.studies.study_data import PreparedData


def main() -> None:
    arguments = _arguments()
    study = load_study(arguments.study).only([arguments.data], arguments.calibrator)
    study = study if arguments.epochs is None else study.trained_for(arguments.epochs)
    reference = arguments.reference or study.reference
    cells, _ = list_cells(study, arguments.runs, RunOptions(data_folder=arguments.data_folder))
    found = {
        cell.spec.name: cell
        for cell in cells
        if cell.seed == study.seeds[0] and cell.is_finished and cell.result()["status"] == "ok"
    }
    data = PreparedData(found[reference].data_folder)
    truth, main_field = data.truth(), data.field_names.index(data.facts["main_field"])
    labels = np.asarray(truth.labels, dtype=np.float64)
    errors = FieldErrors(labels, data.test().features)
    groups = None if truth.groups is None else np.unique(np.asarray(truth.groups), return_inverse=True)[1]
    metrics = ["auc", "gauc", "ece", "pcoc"] if groups is not None else ["auc", "ece", "pcoc"]
    base = log_losses(logit(found[reference].answers()), labels)
    losses, lines = {}, {}
    for name, cell in found.items():
        answers = cell.answers()
        report = evaluate(labels, answers, groups=groups, metrics=metrics)
        by_field, loss = errors.of(answers), log_losses(logit(answers), labels)
        losses[name] = float(loss.mean())
        values = [f"{report.value(metric):.4f}" for metric in metrics]
        values += [f"{by_field[main_field]:.4f}", f"{by_field.mean():.4f}", f"{losses[name]:.6f}"]
        values += ["" if name == reference else difference(loss - base, groups)]
        if truth.true_probabilities is not None:
            values += [f"{errors_to_truth(answers, truth.true_probabilities)['kl_to_truth']:.5f}"]
        lines[name] = f"| {name} | " + " | ".join(values) + f" | {cell.result()['cpu_seconds']:.0f} |"
        print(lines[name], file=sys.stderr, flush=True)
    best = min(losses, key=losses.__getitem__)
    floor = errors.floor(found[best].answers())
    heads = ["method", *metrics, "frce", "mfrce", "log-loss", f"minus {reference}"]
    heads += ["KL to truth", "CPU s"] if truth.true_probabilities is not None else ["CPU s"]
    print("| " + " | ".join(heads) + " |\n|" + " --- |" * len(heads))
    print("\n".join(lines[name] for name in sorted(losses, key=losses.__getitem__)))
    print(f"\nFloors of {best}: FRCE {floor[main_field]:.4f}, MFRCE {floor.mean():.4f}.")


def difference(gaps, groups) -> str:
    """Returns the mean and half the width of its interval, rows of one group counted as one."""
    mean = float(gaps.mean())
    sums = gaps - mean if groups is None else np.bincount(groups, gaps - mean)
    return f"{mean:+.6f} ± {1.96 * float(np.sqrt(np.sum(sums**2))) / len(gaps):.6f}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study")
    parser.add_argument("data")
    parser.add_argument("runs", type=Path)
    parser.add_argument("data_folder", type=Path, nargs="?", help="where real logs lie that no package brings")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--reference")
    parser.add_argument("--calibrator", action="append", default=[])
    return parser.parse_args()


if __name__ == "__main__":
    main()
