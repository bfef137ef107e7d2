"""After the fit: the next generation, whether it may come in, which one is in force, whether it is still right."""

from monocal.operations.gate import gate
from monocal.operations.gate_verdict import GateVerdict
from monocal.operations.inspection import inspect_registry
from monocal.operations.promotion import promote, rollback
from monocal.operations.refreshing import Refresh, refresh
from monocal.operations.registry import Registry, Step, is_registry, read_registry
from monocal.operations.watching import Alarm, Watch, watch

__all__ = [
    "Alarm",
    "GateVerdict",
    "Refresh",
    "Registry",
    "Step",
    "Watch",
    "gate",
    "inspect_registry",
    "is_registry",
    "promote",
    "read_registry",
    "refresh",
    "rollback",
    "watch",
]
