"""One line per calibrator and seed: differences to the challenger, PCOC by period, and what right levels would give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

import numpy as np

from monocal.core.scores import Floats, log_losses, logit, sigmoid
from monocal.evaluation.evaluate import evaluate
from monocal.lab.studies.cells import Cell
from monocal.lab.studies.evaluator import N_FLOOR, FieldErrors, pcoc_by_time
from monocal.lab.studies.leaderboard import markdown_table, versions
from monocal.lab.studies.study import Study
from monocal.lab.studies.study_data import PreparedData, Truth

EXPLANATION = (
    "Differences are paired, in log-loss, with a 95 % interval over groups of rows (users, stores): the noise of the "
    f"judged rows, not that of training seeds. Floors are means of {N_FLOOR} redraws of the labels from the row's own "
    "answers. CPU seconds include fitting (and searching) and answering all judged rows; GiB is the peak of the "
    "process, mapped files included. The last table moves all answers of a period by one number: what is lost by "
    "not knowing its level."
)

_WITHOUT = " without SCLoss"


def levels_table(study: Study, cells: Sequence[Cell]) -> Iterator[str]:
    """Yields the lines of the tables, one data set after the other, smallest log-loss first."""
    yield EXPLANATION
    yield ""
    for spec in study.data:
        found = {cell.folder: cell for cell in reversed(cells) if cell.data_name == spec.name}
        here = list(reversed(found.values()))
        finished = [cell for cell in here if cell.result()["status"] == "ok"]
        if not here:
            continue
        yield from (f"## {spec.name}", "")
        if finished:
            data = PreparedData(finished[0].data_folder)
            truth = data.truth()
            errors = FieldErrors(np.asarray(truth.labels, dtype=np.float64), np.asarray(data.test().features))
            times = np.asarray(truth.times) if spec.period and truth.times is not None else None
            judged = [_Judged(cell, truth, errors, times) for cell in finished]
            yield from _tables(judged, study.challenger, spec.period)
        for cell in here:
            if cell.result()["status"] != "ok":
                yield f"{cell.spec.name}, seed {cell.seed}: skipped, {cell.result()['reason']}\n"
    yield f"Versions: {versions()}. Command: `monocal lab bench {study.name}`."


@final
class _Judged:
    """One finished cell: its metrics, PCOC by period, the sum of losses in every group, and what right levels give."""

    def __init__(self, cell: Cell, truth: Truth, errors: FieldErrors, times: Any) -> None:
        labels, answers = errors.labels, cell.answers()
        self.name, self.seed, self.facts = cell.spec.name, cell.seed, cell.result()
        report = evaluate(labels, answers, metrics=["log_loss", "auc", "ece", "pcoc"])
        self.values = {name: report.value(name) for name in report.names}
        mfrce, floor = float(errors.of(answers).mean()), float(errors.floor(answers).mean())
        self.values |= {"mfrce": mfrce, "beyond": mfrce - floor}
        groups = np.arange(len(labels)) if truth.groups is None else np.asarray(truth.groups)
        places = np.unique(groups, return_inverse=True)[1]
        logits = logit(answers)
        self.n_rows, self.losses = np.bincount(places), np.bincount(places, log_losses(logits, labels))
        self.periods = {} if times is None else pcoc_by_time(answers, labels, times)
        self.moved = {} if times is None else self._moved(logits, floor, times, errors)

    def _moved(self, logits: Floats, floor: float, times: Any, errors: FieldErrors) -> dict[str, str]:
        """Returns log-loss and field error with the level as it is, and with levels that nobody could know."""
        labels = errors.labels
        period = np.unique(times, return_inverse=True)[1]
        right = np.array([right_shift(logits[period == k], labels[period == k]) for k in range(period.max() + 1)])
        shifts = {
            "one right level": np.full(len(right), right_shift(logits, labels)),
            "the level of the {} before": np.append(0.0, right[:-1]),
            "every {}'s right level": right,
        }
        found = {"as it is": f"{self.values['log_loss']:.6f}, {self.values['beyond']:.4f}"}
        for name, shift in shifts.items():
            moved = logits + shift[period]
            beyond = float(errors.of(sigmoid(moved)).mean()) - floor
            found[name] = f"{float(log_losses(moved, labels).mean()):.6f}, {beyond:.4f}"
        return found

    @property
    def title(self) -> str:
        return f"{self.name}, seed {self.seed}"

    def difference(self, other: _Judged) -> str:
        """Returns this one's log-loss minus another's, and half the width of its interval over groups."""
        if other is self:
            return ""
        gaps, n = self.losses - other.losses, self.n_rows.sum()
        mean, n_groups = gaps.sum() / n, len(gaps)
        squares = np.sum((gaps - mean * self.n_rows) ** 2) * n_groups / max(n_groups - 1, 1)
        return f"{mean:+.6f} ± {1.96 * np.sqrt(squares) / n:.6f}"


def right_shift(logits: Floats, labels: Any) -> float:
    """Returns the shift of all logits that makes their total that of the labels, 0 where all of them agree.

    Example:
        >>> round(right_shift(np.array([0.0, 0.0]), np.array([1.0, 0.0])), 6)
        0.0
        >>> round(right_shift(np.zeros(4), np.array([1.0, 0.0, 0.0, 0.0])), 6)
        -1.098612
    """
    shift = 0.0
    if labels.min() == labels.max():  # no finite shift is right
        return shift
    for _ in range(20):
        p = sigmoid(logits + shift)
        step = float((labels.sum() - p.sum()) / np.sum(p * (1.0 - p)))
        shift += step
        if abs(step) < 1e-9:
            break
    return shift


def _tables(judged: list[_Judged], challenger: str, period: str) -> Iterator[str]:
    judged = sorted(judged, key=lambda row: row.values["log_loss"])
    best = judged[0]
    challengers = {row.seed: row for row in judged if row.name == challenger}
    head = ["calibrator", "log-loss", "minus the best", f"minus {challenger}, same seed", "AUC", "ECE", "MFRCE"]
    lines = []
    for row in judged:
        values = [f"{row.values[name]:.4f}" for name in ("auc", "ece", "mfrce", "beyond")]
        values += [f"{row.values['pcoc']:.3f}", f"{row.facts['cpu_seconds']:.0f}"]
        paired = row.difference(challengers[row.seed]) if row.seed in challengers else ""
        memory = f"{row.facts['peak_rss_bytes'] / 2**30:.1f}"
        lines.append([row.title, f"{row.values['log_loss']:.6f}", row.difference(best), paired, *values, memory])
    yield from markdown_table([*head, "beyond its floor", "PCOC", "CPU s", "GiB"], lines)
    if best.periods:
        yield from _period_tables(judged, period)
    yield from _without_scloss(judged)
    for row in judged:
        if "search" in row.facts:
            yield f"{row.title}: {_chosen(row.facts['search'])}\n"


def _period_tables(judged: list[_Judged], period: str) -> Iterator[str]:
    best = judged[0]
    rows = [[row.title, *(f"{value:.2f}" for value in row.periods.values())] for row in judged]
    yield from markdown_table(["PCOC", *(f"{period} {when}" for when in best.periods)], rows)
    head = ["log-loss, MFRCE beyond its floor", *(name.format(period) for name in best.moved)]
    yield from markdown_table(head, [[row.title, *row.moved.values()] for row in judged])


def _without_scloss(judged: list[_Judged]) -> Iterator[str]:
    """Compares "X" and "X, …" with "X without SCLoss" of the same seed, where there is such a row."""
    lines = []
    for without in judged:
        recipe = without.name.removesuffix(_WITHOUT)
        for row in judged if recipe != without.name else ():
            if row.seed == without.seed and (row.name == recipe or row.name.startswith(f"{recipe}, ")):
                lines.append([row.title, row.difference(without)])
    if lines:
        yield from markdown_table(["calibrator", "minus the same without SCLoss"], lines)


def _chosen(search: Mapping[str, Any]) -> str:
    chosen = ", ".join(f"{name} {value:g}" for name, value in search["arguments"].items())
    return f"{search['n_trials']} candidates, chosen {chosen}; held-out log-loss {search['holdout_log_loss']:.6f}."
