"""Click logs with known true probabilities: the chief oracle, and the data of the first run."""

from monocal.lab.simulator.conditional import ConditionalMonotone
from monocal.lab.simulator.distortions import (
    Affine,
    BoundDistortion,
    Compose,
    Distortion,
    Drift,
    FieldSpace,
    NegativeSampling,
)
from monocal.lab.simulator.draws import Field
from monocal.lab.simulator.drifting import Drifting, Lasting
from monocal.lab.simulator.field_distortions import FieldBias, FieldSlope, InteractionBias, MissedEffects
from monocal.lab.simulator.log import SimulatedLog, simulate_log
from monocal.lab.simulator.outcomes import TASKS, Task, delay_labels
from monocal.lab.simulator.search import SearchWorld, simulate_search
from monocal.lab.simulator.stream import simulate_batches, write_simulated_log
from monocal.lab.simulator.truth import Truth, draw_truth
from monocal.lab.simulator.worlds import WORLDS, Interaction, World, find_world

__all__ = [
    "simulate_log",
    "simulate_batches",
    "write_simulated_log",
    "simulate_search",
    "SearchWorld",
    "delay_labels",
    "SimulatedLog",
    "World",
    "WORLDS",
    "find_world",
    "Field",
    "Interaction",
    "Distortion",
    "BoundDistortion",
    "FieldSpace",
    "Affine",
    "NegativeSampling",
    "Drift",
    "Compose",
    "Drifting",
    "Lasting",
    "FieldBias",
    "FieldSlope",
    "MissedEffects",
    "InteractionBias",
    "ConditionalMonotone",
    "Task",
    "TASKS",
    "Truth",
    "draw_truth",
]
