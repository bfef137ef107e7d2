"""What happens to models after the fit: which one is in force, and which one was before."""

from monocal.operations.inspection import inspect_registry
from monocal.operations.promotion import promote, rollback
from monocal.operations.registry import Registry, Step, is_registry, read_registry

__all__ = ["Registry", "Step", "inspect_registry", "is_registry", "promote", "read_registry", "rollback"]
