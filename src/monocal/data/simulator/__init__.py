"""Click logs with known true probabilities: the chief oracle, and the data of the first run."""

from monocal.data.simulator.conditional import ConditionalMonotone
from monocal.data.simulator.distortions import (
    Affine,
    BoundDistortion,
    Compose,
    Distortion,
    Drift,
    FieldSpace,
    NegativeSampling,
)
from monocal.data.simulator.field_distortions import FieldBias, FieldSlope, InteractionBias, MissedEffects
from monocal.data.simulator.fields import Field
from monocal.data.simulator.log import SimulatedLog, simulate_log
from monocal.data.simulator.stream import simulate_batches, write_simulated_log
from monocal.data.simulator.tasks import TASKS, Task
from monocal.data.simulator.truth import Truth, draw_truth
from monocal.data.simulator.worlds import WORLDS, Interaction, World, find_world

__all__ = [
    "simulate_log",
    "simulate_batches",
    "write_simulated_log",
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
