"""What happens to models after the fit: whether a new one may come in, which one is in force, which one was before."""

from monocal.operations.gate import gate
from monocal.operations.gate_verdict import GateVerdict
from monocal.operations.inspection import inspect_registry
from monocal.operations.promotion import promote, rollback
from monocal.operations.registry import Registry, Step, is_registry, read_registry

__all__ = [
    "GateVerdict",
    "Registry",
    "Step",
    "gate",
    "inspect_registry",
    "is_registry",
    "promote",
    "read_registry",
    "rollback",
]
