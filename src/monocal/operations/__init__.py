"""What happens to models after the fit: whether a new one may come in, which is in force, whether it is still right."""

from monocal.operations.gate import gate
from monocal.operations.gate_verdict import GateVerdict
from monocal.operations.inspection import inspect_registry
from monocal.operations.promotion import promote, rollback
from monocal.operations.registry import Registry, Step, is_registry, read_registry
from monocal.operations.watching import Alarm, Watch, watch

__all__ = [
    "Alarm",
    "GateVerdict",
    "Registry",
    "Step",
    "Watch",
    "gate",
    "inspect_registry",
    "is_registry",
    "promote",
    "read_registry",
    "rollback",
    "watch",
]
