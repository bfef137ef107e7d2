"""What a fit carried forward: which share of each field's effect, and of the network, held on rows that came later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import final

from monocal.calibrators import Calibrator
from monocal.calibrators.statistical.carry_over import carried_remarks, curve_remarks


@final
@dataclass(frozen=True)
class CarriedField:
    """One field of the fit.

    Attributes:
        name: The field.
        n_values: How many values it has.
        share: Share of its effect that is carried, 0 to 1; 0 means that it left the model.
        error: Standard error of a learned share; NaN where it was given or nothing could be learned.
        returning: Share of later rows whose value had rows before; NaN where nothing was judged.
        given: Whether the user gave the share.
    """

    name: str
    n_values: int
    share: float
    error: float
    returning: float
    given: bool


@final
@dataclass(frozen=True)
class CarriedForward:
    """The fields in the order of the model, the network's share, and what must be said in words.

    Attributes:
        fields: One entry per field the method looks at.
        network: Share to which the network is believed, 0 if it was rejected; None for a method without one.
        remarks: Sentences about the network, about fields that cannot be told from time, with the option that
            overrides, and about the curve along which the score enters.
    """

    fields: tuple[CarriedField, ...]
    network: float | None
    remarks: tuple[str, ...]

    @property
    def judged(self) -> bool:
        """Whether later rows judged anything; if not, shares that nobody gave are assumed."""
        return any(isfinite(field.returning) for field in self.fields)


def carried_forward(calibrator: Calibrator, names: Sequence[str]) -> CarriedForward | None:
    """Reads the calibrator's `carry_`; None for a method that believes everything it learned of a line.

    Arguments:
        calibrator: A fitted calibrator.
        names: The names of all fields of the model.

    Example:
        >>> import numpy as np
        >>> class Fitted:
        ...     carry_ = {"field": np.array([1]), "n_values": np.array([24]), "share": np.array([0.5]),
        ...               "error": np.array([0.4]), "returning": np.array([0.02]), "given": np.array([False]),
        ...               "network": np.array([0.0])}
        >>> found = carried_forward(Fitted(), ["site", "hour"])
        >>> found.fields[0].name, found.fields[0].share, found.network
        ('hour', 0.5, 0.0)
        >>> found.remarks[0]
        'the network is left out: what it learned said nothing about later rows'
    """
    carry = getattr(calibrator, "carry_", None)
    curves = tuple(curve_remarks(getattr(calibrator, "base_", None)))
    if carry is None:
        return CarriedForward((), None, curves) if curves else None
    fields = tuple(
        CarriedField(
            names[field],
            int(carry["n_values"][place]),
            float(carry["share"][place]),
            float(carry["error"][place]),
            float(carry["returning"][place]),
            bool(carry["given"][place]),
        )
        for place, field in enumerate(carry["field"].tolist())
    )
    network = float(carry["network"][0]) if "network" in carry else None
    return CarriedForward(fields, network, (*carried_remarks(carry, names), *curves))
