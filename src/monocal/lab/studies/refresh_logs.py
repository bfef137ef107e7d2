"""Logs of the study `refresh`, cut into steps."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import final

import numpy as np

from monocal.core.errors import InvalidInput
from monocal.core.samples import Samples
from monocal.core.spaces import Floats
from monocal.lab.simulator import find_world, simulate_log
from monocal.logs.log_folders import open_log
from monocal.logs.scored_log import ScoredLog


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

    rows: list[Samples]
    truth: list[Floats] | None


def open_steps(spec: RefreshLog, data_folder: Path | None) -> Steps | str:
    """Returns the log, or why it is not there."""
    if spec.kind == "simulated":
        world = find_world(spec.world)
        log = simulate_log(spec.n_rows, world=world.with_seed(world.seed + spec.world_seed))
        rows = Samples.of(log.scores, log.labels, features=log.features, times=log.times)
        cuts = [slice(*ends) for ends in pairwise(np.linspace(0, spec.n_rows, spec.n_steps + 1).astype(int).tolist())]
        return Steps([rows.take(cut) for cut in cuts], [log.true_probabilities[cut] for cut in cuts])
    if spec.kind != "ranked":
        raise InvalidInput.of("kind of log", repr(spec.kind), "simulated or ranked", "choose one of the two")
    if data_folder is None or not (data_folder / spec.file).exists():
        return f"{spec.file} not found; pass --data-dir"
    return Steps(_ranked(data_folder / spec.file, spec), None)


def _ranked(folder: Path, spec: RefreshLog) -> list[Samples]:
    found = open_log(folder)
    log = found.as_encoded() if isinstance(found, ScoredLog) else found
    if log.times is None or not log.scores:
        raise InvalidInput.of("log", str(folder), "a ranked log with a time column", "prepare it with a time column")
    (task, *_), times = log.scores, np.asarray(log.times)
    kept = np.flatnonzero(times >= spec.since)[:: spec.every]
    if spec.n_rows:
        kept = kept[:: max(len(kept) // spec.n_rows, 1)]
    rows = Samples.of(
        np.asarray(log.scores[task])[kept],
        np.asarray(log.labels[task])[kept],
        features=np.asarray(log.features[kept]),
        times=times[kept],
        scores_are=log.roles.scores_are,
    )
    return [rows.take(times[kept] == moment) for moment in np.unique(times[kept])]
