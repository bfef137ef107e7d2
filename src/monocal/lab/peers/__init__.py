"""What a practitioner would use instead, each behind the same three arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from monocal.core.spaces import Floats
from monocal.lab.studies.study_data import CalibrationRows, TestRows

Peer = Callable[[CalibrationRows, TestRows, Mapping[str, Any], int], Floats]

PEERS = ("lightgbm", "mcgrad")


def peer(name: str) -> Peer:
    """Returns a peer's fit-and-predict function; a missing package raises ImportError, which becomes a skip."""
    found: Peer = import_module(f"monocal.lab.peers.{name}_peer").fit_and_predict
    return found
