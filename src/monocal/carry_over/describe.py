"""The shrinkage of a fit, read for people: the share of each field's effect that is retained, and what was dropped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from monocal.calibrators.base import Calibrator
from monocal.calibrators.curve import BaseCurve
from monocal.carry_over.shrinkage import ENOUGH_RECURRENCE

HEADINGS = ("field", "values", "retained", "recurring values")
NETWORK_DROPPED = "network dropped: it did not improve the forecast of later rows"

WELL_BELOW = 0.75
"""Fields whose share is below are named in a summary."""

MOST_NAMED = 6


@final
@dataclass(frozen=True)
class RetainedEffect:
    """One field of a fit.

    Attributes:
        name: The field.
        n_values: How many values it has.
        share: Share of its effect that the model retains, 0 to 1; 0 means that it left the model.
        error: Standard error of a learned share; NaN where it was given or nothing could be learned.
        recurrence: Share of later rows whose value had rows before; NaN where nothing was evaluated.
        given: Whether the user gave the share.
    """

    name: str
    n_values: int
    share: float
    error: float
    recurrence: float
    given: bool

    @property
    def is_calendar(self) -> bool:
        """Whether the field is confounded with time, because its values do not recur, and its share was not given."""
        return self.recurrence < ENOUGH_RECURRENCE and not self.given

    @property
    def override(self) -> str:
        """The argument that makes the other choice for a field that is confounded with time."""
        if self.share == 1.0:
            return f'it follows the hour and is kept; carry={{"{self.name}": 0.0}} leaves it out'
        return f'carry={{"{self.name}": 1.0}} keeps it'

    def texts(self) -> tuple[str, str, str, str]:
        """Returns the field as a row of a table, see `HEADINGS`.

        Example:
            >>> RetainedEffect("product", 1500, 0.834, 0.05, 0.95, given=False).texts()
            ('product', '1,500', '0.83 ± 0.05', '95 %')
        """
        error = " (given)" if self.given else "" if math.isnan(self.error) else f" ± {self.error:.2f}"
        recurring = "unknown" if math.isnan(self.recurrence) else f"{self.recurrence:.0%}".replace("%", " %")
        return self.name, f"{self.n_values:,}", f"{self.share:.2f}{error}", recurring


@final
@dataclass(frozen=True)
class RetainedEffects:
    """Which share of each field's effect, of the network and of the curve held on rows that came later.

    A method that shrinks nothing by later rows has none of them.

    Attributes:
        fields: One entry per field the method looks at, in the order of the model.
        network: Weight of the network, 0 if it was dropped; None for a method without one.
        curve: Weight of the curve along which the score enters; None if it enters as it is.
        remarks: Sentences about the network, about the level, about fields that are confounded with time, with the
            option that overrides, and about the curve.
    """

    fields: tuple[RetainedEffect, ...] = ()
    network: float | None = None
    curve: float | None = None
    remarks: tuple[str, ...] = ()

    @classmethod
    def of(cls, calibrator: Calibrator, names: Sequence[str]) -> RetainedEffects:
        """Reads what a fitted calibrator keeps in `carry_` and `base_`.

        Arguments:
            calibrator: A fitted calibrator.
            names: The names of all fields of the model.

        Example:
            >>> import numpy as np
            >>> from monocal.calibrators import calibrator
            >>> fitted = calibrator("wide_logistic")
            >>> one = {"field": 0, "n_values": 20, "share": 0.5, "error": np.nan, "returning": 0.0, "given": False}
            >>> fitted.carry_ = {name: np.array([value]) for name, value in one.items()}
            >>> fitted.carry_ |= {"network": np.array([0.0]), "level": np.array([0.21, 0.42])}
            >>> fitted.base_ = {"knots": np.array([0.0, 1.0, 2.0]), "values": np.array([0.0, 0.6, 2.0])}
            >>> fitted.base_["share"] = np.array([0.9])
            >>> for sentence in RetainedEffects.of(fitted, ["hour"]).remarks:
            ...     print(sentence)
            network dropped: it did not improve the forecast of later rows
            level: +0.21 taken, the newest rows ask for +0.42
            hour: its values do not recur, so it is confounded with time; carry={"hour": 1.0} keeps it
            the score enters along a curve of 3 knots with slopes of 0.60 to 1.40, weight 0.90
        """
        carry, base = vars(calibrator).get("carry_", {}), vars(calibrator).get("base_")
        fields: tuple[RetainedEffect, ...] = ()
        network, curve, remarks = None, None, []
        if carry:
            columns = (carry[name].tolist() for name in ("field", "n_values", "share", "error", "returning", "given"))
            fields = tuple(RetainedEffect(names[field], *row) for field, *row in zip(*columns, strict=True))
        if "network" in carry:
            network = float(carry["network"][0])
            remarks.append(f"weight of the network: {network:.2f}" if network > 0.0 else NETWORK_DROPPED)
        if "level" in carry:
            taken, asked = carry["level"].tolist()
            remarks.append(f"level: {taken:+.2f} taken, the newest rows ask for {asked:+.2f}")
        remarks += [
            f"{field.name}: its values do not recur, so it is confounded with time; {field.override}"
            for field in fields
            if field.is_calendar
        ]
        if base is not None:
            curve, line = float(base["share"][0]), BaseCurve.of(base)
            slopes = f"{line.slopes.min():.2f} to {line.slopes.max():.2f}"
            shape = f"the score enters along a curve of {line.knots.size} knots with slopes of {slopes}"
            remarks.append(f"{shape}, weight {curve:.2f}")
        return cls(fields, network, curve, tuple(remarks))

    @property
    def evaluated(self) -> bool:
        """Whether later rows evaluated anything; if not, shares that nobody gave are assumed."""
        return any(math.isfinite(field.recurrence) for field in self.fields)

    @property
    def calendar(self) -> list[RetainedEffect]:
        """The fields that are confounded with time and whose share nobody has given."""
        return [field for field in self.fields if field.is_calendar]

    def lines(self) -> list[str]:
        """Returns the table of fields and the remarks as aligned lines; none if nothing is shrunk."""
        rows = [HEADINGS, *(field.texts() for field in self.fields)] if self.fields else []
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        return [*table, *self.remarks]

    def summary(self) -> list[str]:
        """Says in short lines what is kept: network, curve, fields well below 1, fields confounded with time."""
        shares = {"network": self.network, "curve of the score": self.curve}
        parts = [f"{name} {share:.2f}" for name, share in shares.items() if share is not None]
        low = sorted((field.share, field.name) for field in self.fields if field.share < WELL_BELOW)
        parts += [f"{name} {share:.2f}" for share, name in low[:MOST_NAMED]]
        if len(low) > MOST_NAMED:
            parts.append(f"{len(low) - MOST_NAMED} more fields up to {low[-1][0]:.2f}")
        if len(low) < len(self.fields):
            parts.append(f"{'other' if low else 'all'} fields {WELL_BELOW:g} or more")
        confounded = [f"{field.name} is confounded with time; {field.override}" for field in self.calendar]
        return [", ".join(parts), *confounded] if parts else confounded

    def as_dict(self) -> dict[str, Any]:
        """Returns the shares as plain values for JSON: `carried` by field, of network and curve, and `calendar`."""
        return {
            "carried": {field.name: field.share for field in self.fields},
            "network_share": self.network,
            "curve_share": self.curve,
            "calendar": [field.name for field in self.calendar],
        }
