"""The study of time: every model predicts the next step, then learns it; frozen, fitted anew, or refreshed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, final

import numpy as np

from monocal.calibrators import Calibrator, calibrator
from monocal.core.dataset import Dataset
from monocal.core.errors import InvalidInput, check_known
from monocal.core.process import progress
from monocal.core.scores import Floats, log_losses, logit
from monocal.lab.simulator import find_world, simulate_log
from monocal.lab.studies.study import built, check_keys, check_named
from monocal.lab.studies.tables_of_studies import WalkedWay, refresh_markdown, refresh_table
from monocal.tables.encoded import open_encoded


@final
@dataclass(frozen=True)
class RefreshLog:
    """One log of the study.

    Arguments:
        name: What tables call it.
        kind: `simulated`, or `ranked`: a folder that `monocal lab rank` wrote.
        n_first: Steps that the first fit learns; windows have as many.
        world: Name of the simulated world.
        world_seed: Draws the world.
        n_rows: Rows of a simulated log; of a ranked one at most so many, 0 means all.
        n_steps: Into how many steps a simulated log is cut; a ranked one at the values of its time column.
        file: The folder, relative to the data folder.
        since: The first value of a ranked log's time column.
        every: Every so many rows of a ranked log.
        note: What readers should know.
    """

    name: str
    kind: str
    n_first: int
    world: str = "drifting"
    world_seed: int = 0
    n_rows: int = 0
    n_steps: int = 14
    file: str = ""
    since: int = 0
    every: int = 1
    note: str = ""


@final
@dataclass(frozen=True, eq=False)
class Steps:
    """A log cut into steps, and what is true of each if it is known."""

    rows: list[Dataset]
    truth: list[Floats] | None


def open_steps(spec: RefreshLog, data_folder: Path | None) -> Steps | str:
    """Returns the log, or why it is not there."""
    if spec.kind == "simulated":
        world = find_world(spec.world)
        log = simulate_log(spec.n_rows, world=world.with_seed(world.seed + spec.world_seed))
        rows = Dataset.of(log.scores, log.labels, features=log.features, times=log.times)
        cuts = [slice(*ends) for ends in pairwise(np.linspace(0, spec.n_rows, spec.n_steps + 1).astype(int).tolist())]
        return Steps([rows.take(cut) for cut in cuts], [log.true_probabilities[cut] for cut in cuts])
    if spec.kind != "ranked":
        raise InvalidInput.of("kind of log", repr(spec.kind), "simulated or ranked", "choose one of the two")
    if data_folder is None or not (data_folder / spec.file).exists():
        return f"{spec.file} not found; pass --data-dir"
    return Steps(_ranked(data_folder / spec.file, spec), None)


def _ranked(folder: Path, spec: RefreshLog) -> list[Dataset]:
    log = open_encoded(folder)
    if log.times is None or not log.scores:
        raise InvalidInput.of("log", str(folder), "a ranked log with a time column", "prepare it with a time column")
    (task, *_), times = log.scores, np.asarray(log.times)
    kept = np.flatnonzero(times >= spec.since)[:: spec.every]
    if spec.n_rows:
        kept = kept[:: max(len(kept) // spec.n_rows, 1)]
    rows = Dataset.of(
        np.asarray(log.scores[task])[kept],
        np.asarray(log.labels[task])[kept],
        features=np.asarray(log.encoding[0][kept]),
        times=times[kept],
        scores_are=log.roles.scores_are,
    )
    return [rows.take(times[kept] == moment) for moment in np.unique(times[kept])]


WAYS = ("frozen", "window", "short window", "refreshed")
SHORT_STEPS = 2
"""Steps of the short window."""


@final
@dataclass(frozen=True)
class RefreshMethod:
    """One method of the study.

    Arguments:
        name: What tables call it.
        method: A calibrator's name.
        arguments: Its constructor arguments.
        ways: How it is kept up to date: `frozen` is the first fit, `window` a fit anew after every step on as many
            steps as the first one had, `short window` on two, `refreshed` goes on with the newest step alone.
    """

    name: str
    method: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    ways: Sequence[str] = ("frozen", "window", "refreshed")


@final
@dataclass(frozen=True)
class RefreshPlan:
    """Logs × methods × ways.

    Arguments:
        name: Its name.
        question: What it asks, in a sentence.
        logs: The logs.
        methods: The methods.
        reference: The way that others are compared with: method, comma, way.
        kind: Always `refresh`.
    """

    name: str
    question: str
    logs: tuple[RefreshLog, ...]
    methods: tuple[RefreshMethod, ...]
    reference: str
    kind: str = "refresh"

    @classmethod
    def of(cls, entries: Mapping[str, Any], origin: str = "the plan") -> RefreshPlan:
        """Builds a plan from plain values and refuses what it does not know."""
        plain = dict(entries)
        logs, methods = plain.pop("logs", []), plain.pop("methods", [])
        check_keys(cls, [plain], origin)
        plan = cls(
            logs=built(RefreshLog, logs, f"logs of {origin}"),
            methods=built(RefreshMethod, methods, f"methods of {origin}"),
            **plain,
        )
        for way in (way for method in plan.methods for way in method.ways):
            check_known(f"way of {origin}", way, WAYS)
        names = [f"{method.name}, {way}" for method in plan.methods for way in method.ways]
        check_known(f"reference of {origin}", plan.reference, names)
        return plan

    def only(self, data: Sequence[str] = (), calibrators: Sequence[str] = ()) -> RefreshPlan:
        """Returns the same study with these logs and methods alone, and that of the reference; none named means all."""
        check_named(self.name, data=(data, self.logs), calibrator=(calibrators, self.methods))
        kept = {*calibrators, self.reference.rpartition(", ")[0]}
        return replace(
            self,
            logs=tuple(log for log in self.logs if not data or log.name in data),
            methods=tuple(method for method in self.methods if not calibrators or method.name in kept),
        )

    def scaled(self, rows: int) -> RefreshPlan:
        """Returns the same study on at most so many rows of each log."""
        logs = tuple(replace(log, n_rows=min(log.n_rows, rows) if log.n_rows else rows) for log in self.logs)
        return replace(self, logs=logs)


def run_refresh(plan: RefreshPlan, data_folder: Path | None = None) -> str:
    """Walks every way through every log and returns the tables as Markdown.

    Arguments:
        plan: What to run.
        data_folder: Where real logs lie; logs that are not there are named in the result.
    """
    tables: dict[str, list[str]] = {}
    missing: dict[str, str] = {}
    n_ways = sum(len(method.ways) for method in plan.methods)
    for spec in plan.logs:
        found = open_steps(spec, data_folder)
        if isinstance(found, str):
            missing[spec.name] = found
            continue
        if len(found.rows) <= spec.n_first:
            raise InvalidInput.of(
                f"n_first of {spec.name!r}", spec.n_first, f"fewer than its {len(found.rows)} steps", "use 2 or more"
            )
        walked = []
        with progress(spec.name, n_ways, "ways") as bar:
            for method in plan.methods:
                for way in method.ways:
                    bar.note(f"{method.name}, {way}")
                    walked.append(walk(method, way, found, spec.n_first))
                    bar.advance(1)
        n_rows = [
            sum(step.n_rows for step in part) for part in (found.rows[: spec.n_first], found.rows[spec.n_first :])
        ]
        said = (
            f"Fitted on {n_rows[0]:,} rows in {spec.n_first} steps, then {n_rows[1]:,} in "
            f"{len(found.rows) - spec.n_first}. {spec.note}"
        )
        truth = None if found.truth is None else _losses(found.truth[spec.n_first :], found.rows[spec.n_first :])
        tables[spec.name] = [said, "", *refresh_table(walked, plan.reference, truth)]
    return refresh_markdown(plan.name, plan.question, tables, missing)


def walk(method: RefreshMethod, way: str, steps: Steps, n_first: int) -> WalkedWay:
    """Predicts every step after the first ones, with labels in time and a step late, and learns it afterwards."""
    rows = steps.rows
    model = previous = _fitted(method, rows[:n_first])
    forecasts: tuple[list[Floats], list[Floats]] = ([], [])
    cpu = 0.0
    for number in range(n_first, len(rows)):
        today = rows[number]
        for answers, forecaster in zip(forecasts, (model, previous), strict=True):
            answers.append(forecaster.predict(today.z, features=today.ids, scores_are="logit"))
        previous = model
        start = time.process_time()
        if way == "refreshed":
            model = model.refresh(today.z, today.labels, features=today.ids, times=today.times, scores_are="logit")
        elif way != "frozen":
            width = SHORT_STEPS if way == "short window" else n_first
            model = _fitted(method, rows[number + 1 - width : number + 1])
        cpu += time.process_time() - start
    later = rows[n_first:]
    off = [
        [abs(p.sum() / day.labels.sum() - 1.0) for p, day in zip(answers, later, strict=True)] for answers in forecasts
    ]
    losses = np.array([_losses(answers, later) for answers in forecasts])
    return WalkedWay(f"{method.name}, {way}", losses, np.array(off), cpu / len(later))


def _fitted(method: RefreshMethod, steps: Sequence[Dataset]) -> Calibrator:
    logits, labels, features, times = (
        np.concatenate([getattr(step, name) for step in steps]) for name in ("z", "labels", "ids", "times")
    )
    return calibrator(method.method, **method.arguments).fit(
        logits, labels, features=features, times=times, scores_are="logit"
    )


def _losses(forecasts: Sequence[Floats], steps: Sequence[Dataset]) -> Floats:
    """Returns the mean log-loss of every step."""
    pairs = zip(forecasts, steps, strict=True)
    return np.array([log_losses(logit(p), day.labels).mean() for p, day in pairs])
