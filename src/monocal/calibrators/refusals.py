"""What a method says when it is asked for something that it cannot do: one error each, with a hint."""

from __future__ import annotations

from typing import Literal

from monocal.core.errors import InvalidInput

_REFUSALS = {
    "numbers": (
        "numeric",
        "one that can use numeric fields: umc, sbcr, fac, desc, mcnet or wide_logistic",
        "choose one of them, or put the numbers into classes and name those under fields=",
    ),
    "refresh": (
        "model",
        "one that can go on from its last fit",
        "fit it anew on a window of recent rows, or use umc, wide_logistic, platt or isotonic",
    ),
    "interval": ("interval", "one with intervals of rows", "use wide_logistic, umc or another network"),
    "onnx": (
        "model",
        "one that can be exported to ONNX",
        "serve it with monocal serve, or give its class the method _map",
    ),
}
"""What is asked for to the argument that asks, what was expected and a hint."""


def refusal(asked: Literal["numbers", "refresh", "interval", "onnx"], method: str) -> InvalidInput:
    """Returns the error of a method that has no use for fields of numbers, or cannot do one of the others.

    Example:
        >>> str(refusal("interval", "platt")).split("; ")[0]
        "interval: got the method 'platt'"
    """
    argument, wanted, hint = _REFUSALS[asked]
    return InvalidInput.of(argument, f"the method {method!r}", wanted, hint)
