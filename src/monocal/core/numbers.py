"""Numbers as people read them, with as many digits as mean something and a true minus; and values as JSON has them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from monocal.core.errors import InvalidInput

UNKNOWN = "–"
_THIN = "\u202f"


def count(number: float) -> str:
    """A count with separators; fractions only where they matter.

    Example:
        >>> count(1234567.0), count(12.34), count(-5), count(float("nan"))
        ('1,234,567', '12.3', '−5', '–')
    """
    return _text(number, ",.0f" if abs(number) >= 100.0 or float(number).is_integer() else ",.1f")


def percent(share: float, digits: int = 3) -> str:
    """A share as a percentage with significant digits.

    Example:
        >>> percent(0.06643), percent(0.00042), percent(0.5), percent(0.0)
        ('6.64\\u202f%', '0.042\\u202f%', '50\\u202f%', '0\\u202f%')
    """
    return significant(100.0 * share, digits) + (f"{_THIN}%" if math.isfinite(share) else "")


def signed_percent(share: float, digits: int = 3) -> str:
    """A change as a percentage with its sign.

    Example:
        >>> signed_percent(0.1234), signed_percent(-0.05)
        ('+12.3\\u202f%', '−5\\u202f%')
    """
    return ("+" if share > 0.0 else "") + percent(share, digits)


def ratio(number: float) -> str:
    """A ratio such as PCOC.

    Example:
        >>> ratio(1.1234), ratio(12.345), ratio(123.45), ratio(float("inf"))
        ('1.123', '12.3', '123', '∞')
    """
    if abs(number) < 10.0:
        return _text(number, ".3f")
    return _text(number, ",.1f" if abs(number) < 100.0 else ",.0f")


def significant(number: float, digits: int = 3) -> str:
    """A number with significant digits, without exponent, without needless zeros.

    Example:
        >>> significant(0.00123456), significant(1234.5), significant(-0.5)
        ('0.00123', '1,234', '−0.5')
    """
    if number == 0.0 or not math.isfinite(number):
        return "0" if number == 0.0 else _text(number, "")
    places = max(0, digits - 1 - math.floor(math.log10(abs(number))))
    text = _text(number, f",.{min(places, 12)}f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def measured(number: float, low: float, high: float) -> str:
    """A number with as many decimals as its interval supports: two digits of the half-width.

    Example:
        >>> measured(0.216789, 0.2143, 0.2192), measured(1.03, 1.02, 1.04)
        ('0.2168', '1.030')
    """
    return _text(number, f",.{decimals(low, high)}f")


def decimals(low: float, high: float, at_most: int = 6) -> int:
    """How many decimals an interval supports."""
    half = 0.5 * (high - low)
    if not math.isfinite(half) or half <= 0.0:
        return 4
    return int(min(max(1 - math.floor(math.log10(half)), 0), at_most))


def span(low: float, high: float, places: int | None = None) -> str:
    """An interval.

    Example:
        >>> span(0.2143, 0.2192), span(1.05, float("inf"), 2)
        ('0.2143 … 0.2192', '1.05 … ∞')
    """
    if math.isnan(low) or math.isnan(high):
        return UNKNOWN
    digits = decimals(low, high) if places is None else places
    return " … ".join(_text(end, f",.{digits}f") for end in (low, high))


def p_value(number: float) -> str:
    """A probability that is often tiny.

    Example:
        >>> p_value(0.0312), p_value(3e-9), p_value(0.5)
        ('0.031', '< 0.0001', '0.50')
    """
    if math.isnan(number):
        return UNKNOWN
    if number < 0.0001:
        return "< 0.0001"
    return f"{number:.2f}" if number >= 0.1 else f"{number:.2g}"


def shorten(text: str, at_most: int = 40) -> str:
    """A long value, cut.

    Example:
        >>> shorten("a very long name", 7)
        'a very…'
    """
    return text if len(text) <= at_most else text[: at_most - 1] + "…"


def value_text(value: Any) -> str:
    """The value of a field.

    Example:
        >>> value_text(7), value_text(None)
        ('7', '(missing)')
    """
    return "(missing)" if value is None else str(value)


def _text(number: float, form: str) -> str:
    if math.isnan(number):
        return UNKNOWN
    if math.isinf(number):
        return "∞" if number > 0.0 else "−∞"
    return f"{number:{form}}".replace("-", "−")


def plain_values(value: Any) -> Any:
    """Returns numbers, texts, lists and dictionaries only, as JSON wants them; a number that is not defined is None.

    Example:
        >>> import numpy as np
        >>> from pathlib import Path
        >>> plain_values({"ece": float("nan"), "shares": np.array([0.5, 0.25]), "out": Path("model")})
        {'ece': None, 'shares': [0.5, 0.25], 'out': 'model'}
    """
    if isinstance(value, Mapping):
        return {str(key): plain_values(entry) for key, entry in value.items()}
    if isinstance(value, str | bool | int) or value is None:
        return value
    if hasattr(value, "tolist"):
        return plain_values(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Iterable):
        return [plain_values(entry) for entry in value]
    return str(value)


_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_FORM = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([smhdw]?)\s*")

DAY = 86_400_000_000
"""A day in microseconds, in which times that are dates are counted."""


def duration_of(text: str, *, has_dates: bool, argument: str) -> int:
    """Returns a length of time in the unit of a time column: microseconds for dates, the column's own for numbers.

    Arguments:
        text: A number with s, m, h, d or w for dates; a bare number for a column of numbers.
        has_dates: Whether the column holds dates or timestamps.
        argument: What it is called in errors.

    Example:
        >>> duration_of("7d", has_dates=True, argument="window") // DAY, duration_of("7", has_dates=False, argument="w")
        (7, 7)
        >>> duration_of("7d", has_dates=False, argument="window")
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: window: got '7d'; expected a number in the unit of the time column. ...
    """
    found = _FORM.fullmatch(text)
    number, unit = (float(found[1]), found[2]) if found else (0.0, "")
    if has_dates:
        if number <= 0.0 or not unit:
            raise InvalidInput.of(
                argument, repr(text), "a length such as 7d, 12h or 30m", "write the number and a unit"
            )
        return round(number * _SECONDS[unit] * 1_000_000)
    if number < 1.0 or unit:
        raise InvalidInput.of(
            argument, repr(text), "a number in the unit of the time column", "write 604800 for a week in seconds"
        )
    return round(number)
