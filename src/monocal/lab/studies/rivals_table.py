"""One line per data set: what a study's challenger gains or loses beside the best of its rivals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from monocal.core.scores import Floats, log_losses, logit
from monocal.lab.studies.cells import Cell
from monocal.lab.studies.evaluator import N_FLOOR, FieldErrors
from monocal.lab.studies.leaderboard import versions
from monocal.lab.studies.study import Study
from monocal.lab.studies.study_data import PreparedData

N_BLOCKS = 200

EXPLANATION = (
    "Log-loss on the rows after the calibration rows, means over the seeds of the networks. The difference is the "
    "challenger minus the best of its rivals, with the wider of two 95 % intervals: over "
    f"{N_BLOCKS} blocks of consecutive rows, and over groups of rows (users, stores, pitchers). It is the noise of the "
    "judged rows, not of the draw; ▲ is better beyond it, ▼ worse. MFRCE is what lies beyond its noise floor "
    f"({N_FLOOR} redraws). CPU seconds are those of a cell, answers included. Shares are what the challenger retains "
    "with the first seed: of its network, and of the fields in the order of the log."
)


@final
@dataclass(frozen=True)
class _Judged:
    """One calibrator on one data set: loss of every judged row, field error beyond its floor, and what it took."""

    losses: Floats
    excess: float
    cpu_seconds: float
    retained: Mapping[str, Sequence[float]]
    n_seeds: int


def rivals_table(study: Study, cells: Sequence[Cell]) -> Iterator[str]:
    """Yields the lines of the table: data sets in the study's order, calibrators in the study's order."""
    names = [spec.name for spec in study.calibrators]
    others = f"{', '.join(study.rivals)}, {study.challenger}"
    yield f"Challenger: {study.challenger}; rivals: {'; '.join(study.rivals)}. {EXPLANATION}"
    yield ""
    head = ["data", "rows", "seeds", *names, "challenger − best rival", f"MFRCE beyond its floor: {others}"]
    yield f"| {' | '.join([*head, f'CPU s: {others}', 'network', 'fields'])} |"
    yield "|" + " --- |" * (len(head) + 3)
    for spec in study.data:
        here = [cell for cell in cells if cell.data_name == spec.name and cell.result()["status"] == "ok"]
        if here:
            yield _line(study, names, here)
    yield ""
    for cell in cells:
        if cell.result()["status"] != "ok":
            yield f"{cell.title}: skipped, {cell.result()['reason']}\n"
    yield f"Versions: {versions()}. Command: `monocal lab bench {study.name}`."


def _line(study: Study, names: Sequence[str], cells: Sequence[Cell]) -> str:
    data = PreparedData(cells[0].data_folder)
    truth = data.truth()
    labels = np.asarray(truth.labels, dtype=np.float64)
    errors = FieldErrors(labels, np.asarray(data.test().features))
    found = {name: _judge([cell for cell in cells if cell.spec.name == name], labels, errors) for name in names}
    judged = {name: row for name, row in found.items() if row is not None}
    means = {name: float(row.losses.mean()) for name, row in judged.items()}
    compared = [name for name in (*study.rivals, study.challenger) if name in judged]
    cells_of_line = [
        cells[0].data_name,
        f"{data.facts['n_calibration']:,}",
        str(max(row.n_seeds for row in judged.values())),
        *(f"{means[name]:.6f}" if name in means else "" for name in names),
        _difference(study, judged, means, truth.groups),
        " ".join(f"{judged[name].excess:.4f}" for name in compared),
        " ".join(f"{judged[name].cpu_seconds:.1f}" for name in compared),
        *_shares(judged.get(study.challenger)),
    ]
    return f"| {' | '.join(cells_of_line)} |"


def _judge(cells: Sequence[Cell], labels: Floats, errors: FieldErrors) -> _Judged | None:
    if not cells:
        return None
    # a method without randomness has one folder for all seeds
    unique = list({cell.folder: cell for cell in cells}.values())
    losses = np.zeros(len(labels))
    excess = []
    for cell in unique:
        answers = cell.answers()
        losses += log_losses(logit(answers), labels) / len(unique)
        excess.append(errors.excess(answers))
    facts = [cell.result() for cell in unique]
    seconds = float(np.mean([entry["cpu_seconds"] for entry in facts]))
    return _Judged(losses, float(np.mean(excess)), seconds, facts[0].get("retained", {}), len(unique))


def _difference(study: Study, judged: Mapping[str, _Judged], means: Mapping[str, float], groups: Any) -> str:
    rivals = [name for name in study.rivals if name in means]
    if study.challenger not in means or not rivals:
        return ""
    best = min(rivals, key=means.__getitem__)
    gaps = judged[study.challenger].losses - judged[best].losses
    gap, half = float(gaps.mean()), half_width(gaps, None if groups is None else np.asarray(groups))
    mark = "" if abs(gap) <= half else (" ▼" if gap > 0 else " ▲")
    return f"{gap:+.6f} ± {half:.6f}{mark} ({best})"


def half_width(gaps: Floats, groups: Any = None) -> float:
    """Returns half of the 95 % interval of the mean: the wider one of blocks of consecutive rows and of groups.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> gaps = np.repeat(rng.normal(size=500), 40)
        >>> bool(half_width(gaps, np.repeat(np.arange(500), 40)) > 5 * 1.96 * gaps.std() / 20_000**0.5)
        True
    """
    places = [np.arange(len(gaps)) * N_BLOCKS // len(gaps)]
    if groups is not None:
        places.append(np.unique(groups, return_inverse=True)[1])
    return max(1.96 * _standard_error(gaps, place) for place in places)


def _standard_error(gaps: Floats, place: Any) -> float:
    """The standard error of a mean whose rows depend on each other within a place (the ratio of sums, linearised)."""
    sums = np.bincount(place, gaps - gaps.mean())
    n_places = int(np.count_nonzero(np.bincount(place)))
    return float(np.sqrt(n_places / max(n_places - 1, 1) * np.sum(sums**2)) / len(gaps))


def _shares(judged: _Judged | None) -> list[str]:
    retained = {} if judged is None else judged.retained
    return [" ".join(f"{share:.2f}" for share in retained.get(key, ())) for key in ("network", "fields")]
