"""What scikit-learn asks of an estimator, without loading scikit-learn."""

from __future__ import annotations

import copy
import inspect
from typing import Any, Self

from monocal.core.errors import UnknownName


class Parameters:
    """Constructor arguments that can be read, set and copied, by the names of the constructor.

    `sklearn.base.clone`, pipelines and searches need no more. Importing scikit-learn's own base class costs more than
    a second, because it loads scipy.stats and pandas; here it is loaded when one of its functions asks for tags.

    Example:
        >>> class Bins(Parameters):
        ...     def __init__(self, n_bins=10):
        ...         self.n_bins = n_bins
        >>> Bins().set_params(n_bins=20).cloned().get_params()
        {'n_bins': 20}
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Returns the constructor's arguments.

        Arguments:
            deep: Whether to add the arguments of arguments that have some, as `name__argument`.
        """
        found: dict[str, Any] = {}
        for name in parameter_names(type(self)):
            found[name] = value = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                found |= {f"{name}__{inner}": setting for inner, setting in value.get_params().items()}
        return found

    def set_params(self, **parameters: Any) -> Self:
        """Sets arguments of the constructor, also `name__argument`; an unknown one is refused.

        Arguments:
            parameters: Names and values.
        """
        known = parameter_names(type(self))
        for name, value in parameters.items():
            owner, _, inner = name.partition("__")
            if owner not in known:
                raise UnknownName.among(f"argument of {type(self).__name__}", name, known)
            if inner:
                getattr(self, owner).set_params(**{inner: value})
            else:
                setattr(self, name, value)
        return self

    def changed_params(self) -> dict[str, Any]:
        """Returns the arguments that differ from their defaults."""
        defaults = type(self)().get_params(deep=False)
        return {name: value for name, value in self.get_params(deep=False).items() if value != defaults[name]}

    def cloned(self) -> Self:
        """Returns an unfitted copy with the same arguments, as `sklearn.base.clone` does."""
        return type(self)(**copy.deepcopy(self.get_params(deep=False)))

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator

        return BaseEstimator.__sklearn_tags__(self)


def parameter_names(kind: type) -> list[str]:
    """Returns the names of a class's constructor arguments, in alphabetical order."""
    given = inspect.signature(kind.__init__).parameters.values()  # type: ignore[misc]
    open_ended = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return sorted(
        parameter.name for parameter in given if parameter.name != "self" and parameter.kind not in open_ended
    )
