"""One cell of a study (one data set, one calibrator, one seed), with the search of its hyper-parameters."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from monocal.calibrators import CALIBRATORS, Calibrator, calibrator
from monocal.core import __version__
from monocal.core.errors import UnknownName
from monocal.core.folder import FolderFormat, fingerprint
from monocal.core.scores import Floats, log_loss, logit
from monocal.lab.peers import PEERS
from monocal.lab.studies.study import CalibratorSpec
from monocal.lab.studies.study_data import CalibrationRows, PreparedData, TestRows

HOLDOUT_SHARE = 0.2


@final
@dataclass(frozen=True)
class Found:
    """The best arguments, how many were tried, and their hold-out log-loss."""

    arguments: dict[str, Any]
    n_trials: int
    loss: float


def search_arguments(cell: Cell, rows: CalibrationRows) -> Found:
    """Tries candidate arguments with optuna (seeded, kept in sqlite so that a killed search goes on).

    The calibration rows are cut in time order: candidates are fitted on the older 80 % and judged by log-loss on the
    newest 20 %. With `search_epochs` the loss on the newest 20 % is taken after every epoch, and the number of epochs
    with the smallest one belongs to what is found.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    cut = int(len(rows.logits) * (1.0 - HOLDOUT_SHARE))
    times = None if rows.times is None else rows.times[:cut]
    older = CalibrationRows(rows.logits[:cut], rows.labels[:cut], rows.features[:cut], times, rows.embeddings)
    newest = TestRows(rows.logits[cut:], rows.features[cut:])
    labels = np.asarray(rows.labels[cut:], dtype=np.float64)

    def loss(trial: Any) -> float:
        chosen = {name: trial.suggest_categorical(name, values) for name, values in cell.spec.search.items()}
        if cell.spec.search_epochs:
            watched = {"n_epochs": cell.spec.search_epochs, "held_out_share": HOLDOUT_SHARE}
            fitted: Any = fit(cell.spec.method, {**cell.spec.arguments, **chosen, **watched}, rows, cell.seed)
            losses = fitted.history_["held_out_losses"][1:]  # the first one is before any step
            trial.set_user_attr("losses", losses)
            trial.set_user_attr("chosen", {"n_epochs": int(np.argmin(losses)) + 1})
            return float(min(losses))
        p, _ = fit_and_predict(cell.spec.method, {**cell.spec.arguments, **chosen}, older, newest, cell.seed)
        return log_loss(logit(p), labels)

    n_candidates = int(np.prod([len(values) for values in cell.spec.search.values()]))
    n_trials = min(cell.spec.n_trials, n_candidates)
    cell.folder.parent.mkdir(parents=True, exist_ok=True)
    storage = f"sqlite:///{cell.folder.parent / (cell.folder.name + '.sqlite')}"
    sampler: Any = optuna.samplers.TPESampler(seed=cell.seed)
    if n_trials == n_candidates:
        sampler = optuna.samplers.GridSampler(dict(cell.spec.search), seed=cell.seed)
    study = optuna.create_study(storage=storage, study_name="search", sampler=sampler, load_if_exists=True)
    done = sum(trial.state == optuna.trial.TrialState.COMPLETE for trial in study.trials)
    if done < n_trials:
        study.optimize(loss, n_trials=n_trials - done)
    chosen = {**study.best_params, **study.best_trial.user_attrs.get("chosen", {})}
    return Found(chosen, len(study.trials), float(study.best_value))


ANSWERS = "test_probabilities.npy"

_SHARES = {"fields": "share", "network": "network"}

CELL_FOLDER = FolderFormat(
    "monocal study cell", 1, "result.json", called="the result of a cell", remedy="delete the folder and run again"
)
"""How the result of a cell lies on disk."""


@final
@dataclass(frozen=True)
class Cell:
    """Where a cell's data are, what it fits, and where its result goes."""

    data_name: str
    data_folder: Path
    spec: CalibratorSpec
    seed: int
    folder: Path

    @property
    def title(self) -> str:
        return f"{self.data_name} · {self.spec.name} · seed {self.seed}"

    @property
    def is_finished(self) -> bool:
        return CELL_FOLDER.is_at(self.folder)

    def result(self) -> dict[str, Any]:
        return CELL_FOLDER.read(self.folder)

    def answers(self) -> Floats:
        found: Floats = np.load(self.folder / ANSWERS, allow_pickle=False).astype(np.float64)
        return found


def cell_of(data_name: str, data: PreparedData, spec: CalibratorSpec, seed: int, cache: Path) -> Cell:
    """Names a cell by everything that its result depends on, and by nothing else (its title may change)."""
    what = {key: value for key, value in asdict(spec).items() if key not in ("name", "n_seeds", "time_limit_seconds")}
    # a key that came later is no part of what was named without it
    what = {key: value for key, value in what.items() if key != "search_epochs" or value}
    # a method without randomness gives the same answers for every seed
    kind = CALIBRATORS.get(spec.method)
    uses_seed = kind is None or "seed" in kind().get_params(deep=False)
    key = fingerprint(data.folder.name, what, seed if uses_seed or spec.search else 0, __version__)
    return Cell(data_name, data.folder, spec, seed, cache / "cells" / key)


def run_cell(cell: Cell) -> None:
    """Fits, predicts the test rows and stores the answers. Test labels are not opened here."""
    data = PreparedData(cell.data_folder)
    rows, test = data.calibration(cell.spec.use_embeddings), data.test()
    arguments: dict[str, Any] = dict(cell.spec.arguments)
    facts: dict[str, Any] = {}
    started, cpu = time.perf_counter(), time.process_time()
    if cell.spec.search:
        found = search_arguments(cell, rows)
        arguments |= found.arguments
        facts["search"] = {"arguments": found.arguments, "n_trials": found.n_trials, "holdout_log_loss": found.loss}
    answers, fitted = fit_and_predict(cell.spec.method, arguments, rows, test, cell.seed)
    facts |= {
        "status": "ok",
        "wall_seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu,
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "arguments": arguments,
        "retained": _retained(fitted),
    }
    finish(cell, facts, answers)


def fit_and_predict(
    method: str, arguments: Mapping[str, Any], rows: CalibrationRows, test: TestRows, seed: int
) -> tuple[Floats, Calibrator | None]:
    """Fits a calibrator or a peer on calibration rows; returns its answers to other rows, and the calibrator."""
    if method in PEERS:
        return PEERS[method](rows, test, arguments, seed), None
    if method not in CALIBRATORS:
        raise UnknownName.among("method", method, [*CALIBRATORS, *PEERS])
    fitted = fit(method, arguments, rows, seed)
    return fitted.predict(test.logits, features=test.features), fitted


def fit(method: str, arguments: Mapping[str, Any], rows: CalibrationRows, seed: int) -> Calibrator:
    """Fits a calibrator of this package on calibration rows."""
    known = CALIBRATORS[method]().get_params(deep=False)
    seeded = {"seed": seed} if "seed" in known else {}
    return calibrator(method, **{**seeded, **arguments}).fit(
        rows.logits,
        rows.labels,
        features=rows.features,
        times=rows.times,
        scores_are="logit",
        embeddings=rows.embeddings,
    )


def _retained(fitted: Calibrator | None) -> dict[str, Any]:
    """Returns the retained shares of the effects of fields and network; nothing of a method without carry-over."""
    carry = getattr(fitted, "carry_", {})
    return {name: [float(share) for share in carry[key]] for name, key in _SHARES.items() if key in carry}


def finish(cell: Cell, facts: Mapping[str, Any], answers: Floats | None = None) -> None:
    """Stores a result, whole or not at all: a cell that was killed has none."""
    with CELL_FOLDER.writing(cell.folder) as temporary:
        if answers is not None:
            np.save(temporary / ANSWERS, answers.astype(np.float64), allow_pickle=False)
        # arguments may hold anything, and only people read them again
        text = json.dumps({"title": cell.title, **facts}, default=str)
        CELL_FOLDER.seal(temporary, json.loads(text, parse_constant=str))


def cell_to_json(cell: Cell) -> str:
    entries = asdict(cell) | {"data_folder": str(cell.data_folder), "folder": str(cell.folder)}
    return json.dumps(entries)


def cell_from_json(text: str) -> Cell:
    entries = json.loads(text)
    spec = CalibratorSpec(**entries.pop("spec"))
    entries["data_folder"], entries["folder"] = Path(entries["data_folder"]), Path(entries["folder"])
    return Cell(spec=spec, **entries)


def main() -> None:
    """Runs the cell described on standard input; the runner starts this in a process of its own."""
    run_cell(cell_from_json(sys.stdin.read()))


if __name__ == "__main__":
    main()
