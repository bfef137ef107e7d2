"""What a method says when it is asked for something that it cannot do: one error each, with the way out."""

from __future__ import annotations

from monocal.core.errors import InvalidInput


def no_numbers(method: str) -> InvalidInput:
    """Returns the error of a method that has no use for fields of numbers."""
    return InvalidInput.of(
        "numeric",
        f"the method {method!r}",
        "one that can use numeric fields: umc, sbcr or wide_logistic",
        "choose one of them, or put the numbers into classes and name those under fields",
    )


def no_refresh_of_numbers(method: str) -> InvalidInput:
    """Returns the error of a refresh of smooth shifts, which have no filter from day to day."""
    return InvalidInput.of(
        "model",
        f"the method {method!r} with numeric fields",
        "a model of categories alone",
        "fit it anew on a window of recent rows",
    )


def no_refresh(method: str) -> InvalidInput:
    """Returns the error of a method that cannot go on from its last fit."""
    return InvalidInput.of(
        "model",
        f"the method {method!r}",
        "one that can go on from its last fit",
        "fit it anew on a window of recent rows, or use umc, wide_logistic, platt or isotonic",
    )


def no_interval(method: str) -> InvalidInput:
    """Returns the error of a method that does not know how surely it knows a row."""
    return InvalidInput.of(
        "interval",
        f"the method {method!r}",
        "one that knows how surely it knows a row",
        "use wide_logistic, umc or another network",
    )


def no_onnx(method: str) -> InvalidInput:
    """Returns the error of a method that cannot be exported."""
    return InvalidInput.of(
        "model",
        f"the method {method!r}",
        "one that writes itself as an ONNX graph",
        "serve it with monocal serve, or give its class the method _write_onnx",
    )
