"""Arguments that have a new name: the old one still works, with a warning that says so."""

from __future__ import annotations

import warnings
from typing import TypeVar

from monocal.core.errors import InvalidInput

Value = TypeVar("Value")


def renamed(old: str, old_value: Value | None, new: str, new_value: Value | None) -> Value | None:
    """Returns what was given under the old or the new name; the old name warns, and both at once are refused.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     renamed("groups", "user_id", "group", None), str(caught[0].message)
        ('user_id', "the argument 'groups' is now called 'group'; the old name will go in version 0.4")
    """
    if old_value is None:
        return new_value
    if new_value is not None:
        raise InvalidInput.of(old, f"a value beside {new}", "one of the two", f"leave {old} out")
    warnings.warn(
        f"the argument {old!r} is now called {new!r}; the old name will go in version 0.4",
        DeprecationWarning,
        stacklevel=3,
    )
    return old_value
