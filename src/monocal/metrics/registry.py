"""Finding a metric by name, with help for slips of the pen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from monocal.core.errors import UnknownName
from monocal.metrics.base import AnyMetric


def find_metric(known: Mapping[str, type[AnyMetric]], name: str, options: Mapping[str, Any]) -> AnyMetric:
    """Returns the named metric with its options, or says which name or option was meant.

    Example:
        >>> from monocal.metrics import METRICS
        >>> find_metric(METRICS, "ece", {"bin": 10})
        Traceback (most recent call last):
        ...
        monocal.core.errors.UnknownName: option of ece: got 'bin'; expected one of bins, precision. Hint: ...
    """
    if name not in known:
        raise UnknownName.among("metric", name, known)
    kind = known[name]
    allowed = [option.name for option in fields(kind)]
    for option in options:
        if option not in allowed:
            raise UnknownName.among(f"option of {name}", option, allowed)
    return kind(**options)
