"""The shrinkage of a fit as a small table for people: the share of each field's effect that is retained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.curve import BaseCurve
from monocal.carry_over.shrinkage import ENOUGH_RECURRENCE

HEADINGS = ("field", "values", "retained", "recurring values")
NETWORK_DROPPED = "network dropped: it did not improve the forecast of later rows"


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


def retained_effects(carry: Mapping[str, NDArray[Any]], names: Sequence[str]) -> list[RetainedEffect]:
    """Returns what is retained of each field that the method looks at.

    Arguments:
        carry: A fitted calibrator's `carry_`.
        names: The names of all fields.
    """
    columns = (carry[name].tolist() for name in ("field", "n_values", "share", "error", "returning", "given"))
    return [RetainedEffect(names[field], *row) for field, *row in zip(*columns, strict=True)]


def retained_rows(carry: Mapping[str, NDArray[Any]], names: Sequence[str]) -> list[tuple[str, str, str, str]]:
    """Returns one row of texts per field: its name, how many values, the share retained, the share of recurring values.

    Arguments:
        carry: A fitted calibrator's `carry_`.
        names: The names of all fields.

    Example:
        >>> carry = {"field": np.array([0]), "n_values": np.array([1500]), "share": np.array([0.834]),
        ...          "error": np.array([0.05]), "returning": np.array([0.95]), "given": np.array([False])}
        >>> retained_rows(carry, ["product"])
        [('product', '1,500', '0.83 ± 0.05', '95 %')]
    """
    rows = []
    for field in retained_effects(carry, names):
        error = " (given)" if field.given else "" if np.isnan(field.error) else f" ± {field.error:.2f}"
        recurring = "unknown" if np.isnan(field.recurrence) else f"{field.recurrence:.0%}".replace("%", " %")
        rows.append((field.name, f"{field.n_values:,}", f"{field.share:.2f}{error}", recurring))
    return rows


def retained_remarks(carry: Mapping[str, NDArray[Any]], names: Sequence[str]) -> list[str]:
    """Returns sentences about the network, about the level and about fields confounded with time.

    Example:
        >>> carry = {"field": np.array([0]), "returning": np.array([0.0]), "given": np.array([False]),
        ...          "network": np.array([0.0]), "share": np.array([0.5]), "level": np.array([0.21, 0.42])}
        >>> for sentence in retained_remarks(carry, ["hour"]):
        ...     print(sentence)
        network dropped: it did not improve the forecast of later rows
        level: +0.21 taken, the newest rows ask for +0.42
        hour: its values do not recur, so it is confounded with time; carry={"hour": 1.0} keeps it
    """
    remarks = []
    if "network" in carry:
        share = float(carry["network"][0])
        remarks.append(f"weight of the network: {share:.2f}" if share > 0.0 else NETWORK_DROPPED)
    if "level" in carry:
        taken, asked = carry["level"].tolist()
        remarks.append(f"level: {taken:+.2f} taken, the newest rows ask for {asked:+.2f}")
    for place, field in enumerate(carry["field"].tolist()):
        if is_calendar(carry, place):
            name = names[field]
            option = f'carry={{"{name}": 1.0}} keeps it'
            if carry["share"][place] == 1.0:
                option = f'it follows the hour and is kept; carry={{"{name}": 0.0}} leaves it out'
            remarks.append(f"{name}: its values do not recur, so it is confounded with time; {option}")
    return remarks


def is_calendar(carry: Mapping[str, NDArray[Any]], place: int) -> bool:
    """Returns whether the field at a place of the table is confounded with time, and its share was not given."""
    return bool(carry["returning"][place] < ENOUGH_RECURRENCE and not carry["given"][place])


def curve_remarks(base: Mapping[str, NDArray[Any]] | None) -> list[str]:
    """Returns a sentence about the curve along which the score enters; none if it enters as it is.

    Arguments:
        base: A fitted calibrator's `base_`, if it has one.

    Example:
        >>> curve_remarks({"knots": np.array([0.0, 1.0, 2.0]), "values": np.array([0.0, 0.6, 2.0]),
        ...               "share": np.array([0.9])})
        ['the score enters along a curve of 3 knots with slopes of 0.60 to 1.40, weight 0.90']
    """
    if base is None:
        return []
    curve = BaseCurve.of(base)
    slopes = f"{curve.slopes.min():.2f} to {curve.slopes.max():.2f}"
    shape = f"the score enters along a curve of {curve.knots.size} knots with slopes of {slopes}"
    return [f"{shape}, weight {float(base['share'][0]):.2f}"]


def retained_lines(carry: Mapping[str, NDArray[Any]], names: Sequence[str]) -> list[str]:
    """Returns the table and the remarks as aligned lines."""
    rows = [HEADINGS, *retained_rows(carry, names)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    table = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [*table, *retained_remarks(carry, names)]
