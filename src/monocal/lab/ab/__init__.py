"""An online experiment in the simulator: users react to what each arm shows them."""

from monocal.lab.ab.experiment import AbOutcome, run_experiment
from monocal.lab.ab.experiment_plan import AbPlan, Arm

__all__ = ["AbOutcome", "AbPlan", "Arm", "run_experiment"]
