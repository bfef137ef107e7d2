"""An online experiment in the simulator: users react to what each arm shows them."""

from monocal.bench.ab.experiment import AbOutcome, run_experiment
from monocal.bench.ab.plan import AbPlan, Arm

__all__ = ["AbOutcome", "AbPlan", "Arm", "run_experiment"]
