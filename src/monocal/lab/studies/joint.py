"""The study of losses that reconcile ranking and calibration: every loss, then every calibrator after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators import calibrator
from monocal.core.errors import UnknownName
from monocal.core.progress import progress
from monocal.core.spaces import Floats
from monocal.lab.rankers import DeepFM, ScoredLog, rank_log
from monocal.lab.rankers.whole_lists import lists_of
from monocal.lab.studies.joint_logs import JointLog, open_joint_log
from monocal.lab.studies.joint_table import JointRow, joint_markdown
from monocal.logs.encoded_log import EncodedLog
from monocal.metrics import Forecast, metric, noise_floor

METRICS = ("auc", "gauc", "ndcg", "log_loss", "ece", "mfrce")
_WITH_FLOOR = ("ece", "mfrce")
TEACHER, DEPLOYED = "teacher", "deployed"


@final
@dataclass(frozen=True)
class LossSpec:
    """One loss of the study.

    Arguments:
        name: What tables call it.
        loss: Name of the loss.
        arguments: What its class takes.
        reference: What it learns from besides labels: `teacher`, a larger ranker, or `deployed`, the one trained with
            log-loss; empty if nothing.
    """

    name: str
    loss: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    reference: str = ""


@final
@dataclass(frozen=True)
class JointPlan:
    """Logs × losses × calibrators.

    Arguments:
        name: Its name.
        question: What it asks, in a sentence.
        logs: The logs.
        losses: The losses, the first of which is plain log-loss.
        calibrators: Methods that follow the ranker; `none` is the ranker alone.
        ranker: Arguments of the DeepFM that every loss trains.
        teacher: Arguments that make it the larger teacher.
        n_bootstrap: Replicates behind intervals.
        kind: Always `joint`.
    """

    name: str
    question: str
    logs: tuple[JointLog, ...]
    losses: tuple[LossSpec, ...]
    calibrators: tuple[str, ...] = ("none", "isotonic", "wide_logistic", "umc")
    ranker: Mapping[str, Any] = field(default_factory=dict)
    teacher: Mapping[str, Any] = field(default_factory=dict)
    n_bootstrap: int = 40
    kind: str = "joint"

    @classmethod
    def of(cls, entries: Mapping[str, Any], origin: str = "the plan") -> JointPlan:
        """Builds a plan from plain values and refuses what it does not know."""
        plain = dict(entries)
        for kind, given in ((cls, [plain]), (JointLog, plain.get("logs", [])), (LossSpec, plain.get("losses", []))):
            known = [entry.name for entry in fields(kind)]
            for table in given:
                for key in table:
                    if key not in known:
                        raise UnknownName.among(f"key of {origin}", key, known)
        return cls(
            logs=tuple(JointLog(**one) for one in plain.pop("logs", [])),
            losses=tuple(LossSpec(**one) for one in plain.pop("losses", [])),
            calibrators=tuple(plain.pop("calibrators", cls.calibrators)),
            **plain,
        )

    def scaled(self, rows: int) -> JointPlan:
        """Returns the same study on at most so many rows of each log."""
        logs = tuple(replace(one, n_rows=min(one.n_rows, rows) if one.n_rows else rows) for one in self.logs)
        return replace(self, logs=logs, n_bootstrap=min(self.n_bootstrap, 5))


def run_joint(plan: JointPlan, folder: Path, data_folder: Path | None = None) -> str:
    """Runs the study and returns its tables as Markdown; rankers that are finished are not trained again.

    Calibrators are fitted on the log's calibration part and judged on its test part, which nothing else opens.

    Arguments:
        plan: What to run.
        folder: Keeps prepared logs and rankers.
        data_folder: Where real logs lie; logs that are not there are named in the result.
    """
    tables, missing = [], {}
    for spec in plan.logs:
        found = open_joint_log(spec, folder, data_folder)
        if isinstance(found, str):
            missing[spec.name] = found
            continue
        tables.append((spec, _one_log(plan, spec, found, folder / spec.name)))
    return joint_markdown(plan.name, plan.question, tables, missing, METRICS)


def _one_log(plan: JointPlan, spec: JointLog, log: EncodedLog, folder: Path) -> list[JointRow]:
    task = log.tasks[0]
    arguments = {"task": task, **plan.ranker}
    made: dict[str, ScoredLog] = {}
    for one in (LossSpec(DEPLOYED, "log_loss"), LossSpec(TEACHER, "log_loss", {})):
        if one.name == DEPLOYED or any(loss.reference == TEACHER for loss in plan.losses):
            more = plan.teacher if one.name == TEACHER else {}
            made[one.name] = rank_log(log, DeepFM(**{**arguments, **more}), folder / one.name)
    test = log.part("test")
    groups = np.unique(lists_of(test, spec.group), return_inverse=True)[1]
    counts = np.random.default_rng(0).poisson(1.0, (plan.n_bootstrap, int(groups.max()) + 1)).astype(np.float64)
    rows: list[JointRow] = []
    with progress(f"{spec.name}: losses and calibrators", len(plan.losses) * len(plan.calibrators), "cells") as bar:
        for loss in plan.losses:
            scored = made.get(loss.reference, made[DEPLOYED])
            if loss.loss != "log_loss":
                group = spec.rates if loss.loss == "bbp" else spec.group
                ranker = DeepFM(
                    **arguments, loss=loss.loss, loss_arguments=dict(loss.arguments) or None, group=tuple(group)
                )
                reference = made[loss.reference] if loss.reference else None
                scored = rank_log(log, ranker, folder / loss.loss, reference=reference)
            for method in plan.calibrators:
                answers = _calibrated(scored, task, method)
                rows.append(_judged(loss.name, method, answers, test, task, groups, counts))
                bar.advance(1)
    return rows


def _calibrated(scored: ScoredLog, task: str, method: str) -> Floats:
    rows, test = scored.part("calibration").samples(task), scored.part("test").samples(task)
    fitted = calibrator(method).fit(rows.logits, rows.known_labels, features=rows.features, scores_are="logit")
    return fitted.predict(test.logits, features=test.features)


def _judged(
    loss: str,
    method: str,
    answers: Floats,
    test: EncodedLog,
    task: str,
    groups: NDArray[np.int64],
    counts: Floats,
) -> JointRow:
    columns = {name: np.asarray(test.features[:, place]) for place, name in enumerate(test.field_names)}
    forecast = Forecast.of(test.labels[task], answers, fields=columns, groups=groups)
    values, replicates = {}, {}
    for name in METRICS:
        chosen = metric(name)
        values[name] = chosen.of(forecast).number
        states: Sequence[Any] = list(chosen.summary.replay(forecast).reweighted(groups, counts))
        replicates[name] = np.array([chosen.value(state).number for state in states])
    judged = {name: metric(name) for name in _WITH_FLOOR}
    floors = {name: float(draws.mean()) for name, draws in noise_floor(judged, forecast, n_draws=20).items()}
    return JointRow(loss, method, values, replicates, floors)
