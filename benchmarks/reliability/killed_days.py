"""Kills daily jobs at random moments of every phase and looks whether anything is lost or half-believed.

Two jobs take turns: a day (refresh, save, promote) and a rollback. Each is killed in a phase that is chosen beforehand,
after a random part of that phase's usual duration; what counts is the phase in which it really was. Until the pointer
moves the generation before has to be in force, and from then on the new one; the model in force has to load and to know
its parents; the folder of the next generation, if it is there, has to be whole.

    python benchmarks/reliability/killed_days.py --kills 240
"""

from __future__ import annotations

import argparse
import mmap
import os
import signal
import struct
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection
from itertools import pairwise
from pathlib import Path

import numpy as np

import monocal
from monocal.models.artefact import load_model
from monocal.monitoring import registry as registry_module
from monocal.monitoring.refresh import refresh
from monocal.monitoring.registry import promote, read_registry, rollback, standing_promotions

ROWS = 1_000

PHASES = {
    "day": ("refresh and save", "promote, before the pointer", "moving the pointer", "after the pointer moved"),
    "rollback": ("rollback, before the pointer", "moving it back", "after it moved back"),
}


class Board:
    """What a child says to its parent: which phase it is in, and since when."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 256)

    def enter(self, phase: int) -> None:
        struct.pack_into("d", self._memory, 8 + 8 * phase, time.monotonic())
        struct.pack_into("q", self._memory, 0, phase)

    def clear(self) -> None:
        self._memory[:] = bytes(256)
        struct.pack_into("q", self._memory, 0, -1)

    @property
    def phase(self) -> int:
        return int(struct.unpack_from("q", self._memory, 0)[0])

    def began(self, phase: int) -> float:
        return float(struct.unpack_from("d", self._memory, 8 + 8 * phase)[0])


def rows_of_day(day: int) -> dict[str, list[float]]:
    random = np.random.default_rng(day)
    scores = random.uniform(0.02, 0.4, ROWS)
    return {
        "pctr": scores.tolist(),
        "click": (random.random(ROWS) < scores).astype(int).tolist(),
        "site": random.integers(0, 50 + day, ROWS).tolist(),
        "day": [day] * ROWS,
    }


def say_when_the_pointer_moves(board: Board, moving: int) -> None:
    """Puts marks around the one step that puts another model in force; in a child only."""
    write = registry_module.write_history

    def marked(*given: object) -> object:
        board.enter(moving)
        done = write(*given)  # type: ignore[arg-type]
        board.enter(moving + 1)
        return done

    registry_module.write_history = marked  # type: ignore[assignment]


def do_day(place: Path, board: Board) -> None:
    """Goes on from the model in force with the day that it has not learned; to be repeated at will."""
    board.enter(0)
    found = read_registry(place / "registry")
    day = found.load().info.get("generation", 1)
    refresh(found.model_folder, rows_of_day(day), out=place / "next")
    say_when_the_pointer_moves(board, 2)
    board.enter(1)
    promote(place / "next", place / "registry")
    read_registry(place / "registry").load()


def do_rollback(place: Path, board: Board) -> None:
    say_when_the_pointer_moves(board, 1)
    board.enter(0)
    rollback(place / "registry")
    read_registry(place / "registry").load()


JOBS: dict[str, Callable[[Path, Board], None]] = {"day": do_day, "rollback": do_rollback}


def in_force(place: Path) -> list[str]:
    """Returns the models that stand, the last one in force; fails if anything is not whole or not in its place."""
    found = read_registry(place / "registry")
    model = found.load()
    standing = [step.fingerprint for step in standing_promotions(found.history)]
    parents = [entry["parent"] for entry in model.info.get("history", ())]
    assert standing == [*parents, model.fingerprint]
    assert [entry["last"] for entry in model.info["learned_from"]] == list(range(len(standing)))
    if (place / "next").exists():
        load_model(place / "next")
    return standing


def start(job: str, place: Path, board: Board) -> int:
    board.clear()
    child = os.fork()
    if child == 0:
        JOBS[job](place, board)
        board.enter(len(PHASES[job]))
        os._exit(0)
    return child


def usual_seconds(job: str, place: Path, board: Board) -> list[float]:
    """Returns how long each phase lasts, from one run that is left alone."""
    _, status = os.waitpid(start(job, place, board), 0)
    assert status == 0
    began = [board.began(phase) for phase in range(len(PHASES[job]) + 1)]
    return [max(later - earlier, 1e-4) for earlier, later in pairwise(began)]


def check(job: str, phase: int, before: list[str], after: list[str]) -> str:
    """Says which state is in force after a kill; fails if it is not one that the phase allows."""
    moved = after != before
    if moved:
        shorter, longer = sorted((before, after), key=len)
        assert longer[:-1] == shorter
        assert (len(after) > len(before)) == (job == "day")
    moving = len(PHASES[job]) - 2
    assert not (phase < moving and moved)
    assert not (phase > moving and not moved)
    return "the new one" if moved else "the one before"


def kill_days(
    place: Path, n_kills: int, seed: int = 0, *, until_hit: Collection[str] = (), most_kills: int = 0
) -> Counter[tuple[str, str]]:
    """Returns how many kills hit each phase, and what was in force afterwards.

    Arguments:
        place: An empty folder.
        n_kills: How many kills.
        seed: Draws the moments.
        until_hit: Phases that have to be hit: where a phase is short, a moment is easily missed, and kills go on.
        most_kills: How far they go on, at most.
    """
    random, board = np.random.default_rng(seed), Board()
    columns = {"score": "pctr", "label": "click", "fields": ["site"], "time": "day"}
    monocal.fit(rows_of_day(0), method="wide_logistic", **columns).save(place / "first")  # type: ignore[arg-type]
    promote(place / "first", place / "registry")
    seconds = {job: usual_seconds(job, place, board) for job in PHASES}
    targets = [(job, phase) for job, phases in PHASES.items() for phase in range(len(phases))]
    counts: Counter[tuple[str, str]] = Counter()
    turn = 0
    while counts.total() < n_kills or (counts.total() < most_kills and set(until_hit) - {phase for phase, _ in counts}):
        job, phase = targets[turn % len(targets)]
        turn += 1
        before = in_force(place)
        if job == "rollback" and len(before) < 2:
            job, phase = "day", 3
        child = start(job, place, board)
        ended = 0
        while board.phase < phase and not ended:
            ended = os.waitpid(child, os.WNOHANG)[0]
            time.sleep(1e-4)
        if not ended:
            time.sleep(float(random.uniform(0.0, seconds[job][phase])))
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            ended = 0 if os.WIFSIGNALED(status) else child
        reached = board.phase
        after = in_force(place)
        found = check(job, min(reached, len(PHASES[job]) - 1) if reached >= 0 else 0, before, after)
        if not ended:
            name = PHASES[job][reached] if 0 <= reached < len(PHASES[job]) else f"{job}, before or after it"
            counts[name, found] += 1
    assert os.waitpid(start("day", place, board), 0)[1] == 0
    in_force(place)
    left = sorted(os.listdir(place))
    assert left == ["first", "next", "registry"], left
    assert sorted(os.listdir(place / "registry")) == ["models", "registry.json"]
    return counts


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=240)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as place:
        counts = kill_days(Path(place), given.kills, given.seed)
    print("| killed in | kills | found afterwards |\n| --- | --- | --- |")
    for name in dict.fromkeys(phase for phase, _ in counts):
        found = {state: n for (phase, state), n in counts.items() if phase == name}
        print(f"| {name} | {sum(found.values())} | {', '.join(f'{state} {n}' for state, n in found.items())} |")


if __name__ == "__main__":
    main()
