"""Hyper-parameter search on the newest part of the calibration rows; test rows take no part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from monocal.core.log_loss import log_loss
from monocal.core.spaces import logit
from monocal.lab.studies.cells import Cell, fit, fit_and_predict
from monocal.lab.studies.study_data import CalibrationRows, TestRows

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
