"""Fields that stand above others: the advertiser of an ad, the category of a product."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from monocal.core.errors import InvalidInput

Parents = Mapping[str, str]
"""Field to the field above it."""


def with_parents(fields: Sequence[str], parents: Parents | None) -> list[str]:
    """Returns the fields and behind them every parent that is not among them; refuses a circle.

    Arguments:
        fields: The fields that were named.
        parents: Field to the field above it.

    Example:
        >>> with_parents(["ad", "site"], {"ad": "advertiser", "advertiser": "category"})
        ['ad', 'site', 'advertiser', 'category']
        >>> with_parents(["ad"], {"ad": "brand", "brand": "ad"})
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: parents: got a circle, ad → brand → ad; wanted ... Way out: leave one of ...
    """
    above = dict(parents or {})
    for field in above:
        line = [field]
        while line[-1] in above:
            line.append(above[line[-1]])
            if line[-1] == field:
                raise InvalidInput.of(
                    "parents", f"a circle, {' → '.join(line)}", "parents that stand above", "leave one of them out"
                )
            if len(line) > len(above) + 1:
                break  # a circle that this field only leads to; it is named when its own turn comes
    named = dict.fromkeys(name for pair in above.items() for name in pair)
    return [*fields, *(name for name in named if name not in fields)]
