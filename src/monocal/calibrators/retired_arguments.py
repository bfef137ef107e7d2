"""Arguments that methods once had, so that models saved with them still load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from monocal.core.errors import ArtefactError


@dataclass(frozen=True)
class Retired:
    """An argument that is gone.

    Attributes:
        default: What it was unless somebody said otherwise; with it a model is what it would be today.
        meaning: What it did.
    """

    default: Any
    meaning: str


_AVERAGING = {"averaging": Retired("none", "the weights were averaged over training steps")}

RETIRED: dict[str, dict[str, Retired]] = dict.fromkeys(("umc", "fac", "sbcr", "desc", "adacalib"), _AVERAGING)
"""By method and argument."""


def without_retired(method: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a saved model's arguments without those that are gone; refuses one that was not at its default.

    Example:
        >>> without_retired("umc", {"size": "small", "averaging": "none"})
        {'size': 'small'}
        >>> without_retired("umc", {"averaging": "tail"})
        Traceback (most recent call last):
        ...
        monocal.core.errors.ArtefactError: umc was fitted with averaging='tail' (the weights were averaged ...
    """
    gone = RETIRED.get(method, {})
    for name, value in arguments.items():
        if name in gone and value != gone[name].default:
            raise ArtefactError(
                f"{method} was fitted with {name}={value!r} ({gone[name].meaning}), which no longer exists; nothing "
                "was loaded. Way out: fit the model again"
            )
    return {name: value for name, value in arguments.items() if name not in gone}
