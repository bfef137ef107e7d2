"""What an online experiment compares, as plain values from a TOML file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, final

from monocal.core.errors import InvalidInput, check_known
from monocal.lab.simulator import TASKS
from monocal.lab.studies.study import built, check_keys


@final
@dataclass(frozen=True)
class Arm:
    """One arm: the calibrator that replaces every task's raw score before fusion.

    Arguments:
        name: What tables call it.
        method: A calibrator; `none` ranks by the raw scores.
        arguments: Its constructor arguments.
    """

    name: str
    method: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@final
@dataclass(frozen=True)
class AbPlan:
    """An experiment.

    Arguments:
        name: Its name.
        question: What it asks, in a sentence.
        arms: The arms; every one sees the same users, candidates and luck.
        reference: The arm that the others are compared with.
        world: A simulated world with all tasks; `search`, if a ranker is trained.
        world_seed: Draws the world.
        seed: Draws the log and the traffic.
        ranker: A ranker that is trained on the first part of the world `search`; empty takes the world's own scores.
        ranker_arguments: Its constructor arguments.
        n_training: Logged impressions that it learns from, before those of the calibrators.
        n_calibration: Logged impressions that calibrators are fitted on.
        n_requests: Requests of the experiment.
        n_candidates: Candidates per request.
        n_shown: How many of them are shown, best fused score first.
        fusion: Weight of each task's probability in the fused score.
        n_bootstrap: Replicates behind the intervals over users.
        kind: Always `ab`.
    """

    name: str
    question: str
    arms: tuple[Arm, ...]
    reference: str
    world: str = "multitask"
    world_seed: int = 0
    seed: int = 0
    ranker: str = ""
    ranker_arguments: Mapping[str, Any] = field(default_factory=dict)
    n_training: int = 0
    n_calibration: int = 200_000
    n_requests: int = 50_000
    n_candidates: int = 20
    n_shown: int = 5
    fusion: Mapping[str, float] = field(default_factory=lambda: {"effective_view": 1.0, "long_view": 1.0, "click": 0.5})
    n_bootstrap: int = 1000
    kind: str = "ab"

    def __post_init__(self) -> None:
        names = [arm.name for arm in self.arms]
        check_known("reference", self.reference, names)
        for task in self.fusion:
            check_known("task of fusion", task, TASKS)
        if bool(self.ranker) != (self.world == "search"):
            raise InvalidInput.of(
                "ranker",
                f"{self.ranker!r} in the world {self.world!r}",
                "a ranker in the world search, and none elsewhere",
                'say ranker = "qin" and world = "search", or neither',
            )
        if not 1 <= self.n_shown <= self.n_candidates:
            raise InvalidInput.of(
                "n_shown", self.n_shown, f"between 1 and n_candidates = {self.n_candidates}", "show fewer"
            )

    @classmethod
    def of(cls, entries: Mapping[str, Any], origin: str = "the plan") -> AbPlan:
        """Builds a plan from plain values and refuses what it does not know."""
        plain = dict(entries)
        check_keys(cls, [plain], origin)
        return cls(arms=built(Arm, plain.pop("arms", []), f"arms of {origin}"), **plain)

    def scaled(self, rows: int) -> AbPlan:
        """Returns the same experiment with at most so many logged rows and a tenth as many requests."""
        return replace(
            self,
            n_training=min(self.n_training, rows),
            n_calibration=min(self.n_calibration, rows),
            n_requests=min(self.n_requests, max(rows // 10, 10)),
            n_bootstrap=min(self.n_bootstrap, 100),
        )
