"""The study of losses that reconcile ranking and calibration: every loss, then every calibrator after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators import calibrator
from monocal.core.errors import InvalidInput
from monocal.core.process import progress
from monocal.core.scores import Floats
from monocal.lab.prepare.encoded_log import EncodedLog
from monocal.lab.prepare.encoder import encode_log
from monocal.lab.prepare.splits import RowRange
from monocal.lab.rankers import DeepFM, ScoredLog, rank_log
from monocal.lab.rankers.lists import lists_of
from monocal.lab.simulator import simulate_search
from monocal.lab.sources import SOURCES
from monocal.lab.studies.evaluator import divergences
from monocal.lab.studies.study import built, check_keys, check_named
from monocal.lab.studies.tables_of_studies import KL, JointRow, JointTable, joint_markdown
from monocal.metrics import Forecast, metric, noise_floor


@final
@dataclass(frozen=True)
class JointLog:
    """One log of the study.

    Arguments:
        name: What tables call it.
        kind: `search` (simulated), `source` (raw files of a public data set) or `prepared` (a folder of `prepare`).
        group: Columns whose values make a list.
        rates: Fields of user and item whose click rates BBP uses.
        source: Name of the source.
        file: Where raw files or the prepared log lie, relative to the data folder.
        n_rows: At most about so many rows; 0 means all. The simulated log is drawn with so many; of a prepared log all
            rows of every k-th value of the last field of `rates` are kept, so that every list keeps the same share.
        note: What readers should know.
    """

    name: str
    kind: str
    group: Sequence[str]
    rates: Sequence[str]
    source: str = ""
    file: str = ""
    n_rows: int = 0
    note: str = ""


@final
@dataclass(frozen=True, eq=False)
class OpenedLog:
    """A log of the study.

    Attributes:
        log: Its rows, with their parts.
        truth: The true probabilities of the test part, if somebody knows them.
    """

    log: EncodedLog
    truth: Floats | None = None


def open_joint_log(spec: JointLog, folder: Path, data_folder: Path | None, seed: int = 0) -> OpenedLog | str:
    """Returns the log, or why it is not there; the seed draws a simulated one."""
    if spec.kind == "search":
        simulated = simulate_search(spec.n_rows, seed=seed)
        log = simulated.encoded()
        part = log.parts["test"]
        return OpenedLog(log, simulated.true_probabilities[part.start : part.stop])
    if spec.kind not in ("source", "prepared"):
        raise InvalidInput.of("kind of log", repr(spec.kind), "search, source or prepared", "choose one of the three")
    if data_folder is None or not (data_folder / spec.file).exists():
        return f"{spec.file or 'its raw files'} not found; pass --data-dir"
    raw = data_folder / spec.file
    if spec.kind == "source":
        log = encode_log(SOURCES[spec.source]().open(raw), None, folder / "encoded" / spec.name)
        return OpenedLog(log if not spec.n_rows else _newest(log, spec.n_rows))
    log = EncodedLog.open(raw)
    return OpenedLog(_thinned(log, spec) if spec.n_rows and spec.n_rows < log.n_rows else log)


def _newest(log: EncodedLog, n_rows: int) -> EncodedLog:
    """Returns the newest rows in the log's own shares."""
    start = max(log.n_rows - n_rows, 0)
    cuts = [start + int(share * (log.n_rows - start)) for share in (0.6, 0.8)]
    parts = {
        "train": RowRange(0, cuts[0] - start),
        "calibration": RowRange(cuts[0] - start, cuts[1] - start),
        "test": RowRange(cuts[1] - start, log.n_rows - start),
    }
    return replace(log.slice(start, log.n_rows), parts=parts)


def _thinned(log: EncodedLog, spec: JointLog) -> EncodedLog:
    column = log.features[:, log.field_names.index(spec.rates[-1])]
    every = -(-log.n_rows // spec.n_rows)
    chosen = np.flatnonzero((column % every == 1) & (column > 0))
    parts = {
        name: RowRange(*(int(np.searchsorted(chosen, border)) for border in (part.start, part.stop)))
        for name, part in log.parts.items()
    }
    return replace(log.take(chosen), parts=parts)


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
        seeds: One table of each log per seed; a seed draws the simulated log, the rankers' starting points and what
            calibrators draw.
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
    seeds: tuple[int, ...] = (0,)
    n_bootstrap: int = 200
    kind: str = "joint"

    @classmethod
    def of(cls, entries: Mapping[str, Any], origin: str = "the plan") -> JointPlan:
        """Builds a plan from plain values and refuses what it does not know."""
        plain = dict(entries)
        check_keys(cls, [plain], origin)
        return cls(
            logs=built(JointLog, plain.pop("logs", []), f"logs of {origin}"),
            losses=built(LossSpec, plain.pop("losses", []), f"losses of {origin}"),
            calibrators=tuple(plain.pop("calibrators", cls.calibrators)),
            seeds=tuple(plain.pop("seeds", cls.seeds)),
            **plain,
        )

    def only(self, data: Sequence[str] = ()) -> JointPlan:
        """Returns the same study on these logs alone; none named means all."""
        check_named(self.name, data=(data, self.logs))
        return replace(self, logs=tuple(spec for spec in self.logs if not data or spec.name in data))

    def scaled(self, rows: int) -> JointPlan:
        """Returns the same study on at most so many rows of each log, with one seed."""
        logs = tuple(replace(spec, n_rows=min(spec.n_rows, rows) if spec.n_rows else rows) for spec in self.logs)
        return replace(self, logs=logs, seeds=self.seeds[:1], n_bootstrap=min(self.n_bootstrap, 5))


def run_joint(plan: JointPlan, folder: Path, data_folder: Path | None = None) -> str:
    """Runs the study and returns its tables as Markdown; rankers that are finished are not trained again.

    Calibrators are fitted on the log's calibration part and judged on its test part, which nothing else opens.

    Arguments:
        plan: What to run.
        folder: Keeps prepared logs and rankers.
        data_folder: Where real logs lie; logs that are not there are named in the result.
    """
    tables, missing = [], {}
    for seed in plan.seeds:
        for spec in plan.logs:
            found = open_joint_log(spec, folder, data_folder, seed)
            if isinstance(found, str):
                missing[spec.name] = found
                continue
            rows = _one_log(plan, spec, found, folder / spec.name / f"seed{seed}", seed)
            tables.append(JointTable(spec, seed, rows))
    return joint_markdown(plan.name, plan.question, tables, missing, METRICS)


def _one_log(plan: JointPlan, spec: JointLog, opened: OpenedLog, folder: Path, seed: int) -> list[JointRow]:
    log = opened.log
    task = log.tasks[0]
    arguments = {"task": task, "seed": seed, **plan.ranker}
    made = {DEPLOYED: rank_log(log, DeepFM(**arguments), folder / DEPLOYED)}
    if any(loss.reference == TEACHER for loss in plan.losses):
        made[TEACHER] = rank_log(log, DeepFM(**{**arguments, **plan.teacher}), folder / TEACHER)
    test = log.part("test")
    groups = np.unique(lists_of(test, spec.group), return_inverse=True)[1]
    counts = np.random.default_rng(0).poisson(1.0, (plan.n_bootstrap, int(groups.max()) + 1)).astype(np.float64)
    columns = {name: np.asarray(test.features[:, place]) for place, name in enumerate(test.field_names)}
    rows: list[JointRow] = []
    n_cells = len(plan.losses) * len(plan.calibrators)
    with progress(f"{spec.name}: losses and calibrators", n_cells, "cells") as bar:
        for loss in plan.losses:
            scored = made[DEPLOYED]
            if loss.loss != "log_loss":
                group = spec.rates if loss.loss == "bbp" else spec.group
                ranker = DeepFM(
                    **arguments, loss=loss.loss, loss_arguments=dict(loss.arguments) or None, group=tuple(group)
                )
                reference = made[loss.reference] if loss.reference else None
                scored = rank_log(log, ranker, folder / loss.loss, reference=reference)
            for method in plan.calibrators:
                answers = _calibrated(scored, task, method, seed)
                forecast = Forecast.of(test.labels[task], answers, fields=columns, groups=groups)
                rows.append(_judged(loss.name, method, forecast, groups, counts, opened.truth))
                bar.advance(1)
    return rows


def _calibrated(scored: ScoredLog, task: str, method: str, seed: int) -> Floats:
    rows, test = scored.part("calibration").samples(task), scored.part("test").samples(task)
    chosen = calibrator(method)
    if "seed" in chosen.get_params(deep=False):
        chosen.set_params(seed=seed)
    return chosen.fit_data(rows, scores_are="logit").predict_data(test)


def _judged(
    loss: str, method: str, forecast: Forecast, groups: NDArray[np.int64], counts: Floats, truth: Floats | None
) -> JointRow:
    values, replicates = {}, {}
    for name in METRICS:
        chosen = metric(name)
        values[name] = chosen.of(forecast).number
        states: Sequence[Any] = list(chosen.summary.replay(forecast).reweighted(groups, counts))
        replicates[name] = np.array([chosen.value(state).number for state in states])
    if truth is not None:
        distances = divergences(forecast.probabilities, truth)
        values[KL] = float(distances.mean())
        replicates[KL] = counts @ np.bincount(groups, distances) / (counts @ np.bincount(groups))
    judged = {name: metric(name) for name in _WITH_FLOOR}
    floors = {name: float(draws.mean()) for name, draws in noise_floor(judged, forecast, n_draws=20).items()}
    return JointRow(loss, method, values, replicates, floors)
