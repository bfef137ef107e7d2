"""Rankers that learn from lists: which rows belong together, in the words of each library."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import _safe_indexing

from monocal.core.errors import InvalidInput
from monocal.core.spaces import Floats

_WORDS = ("qid", "group_id", "group")
"""How `fit` of XGBRanker, CatBoostRanker and LGBMRanker calls it; XGBRanker knows the last one, too."""


def learns_from_lists(ranker: Any) -> bool:
    """Returns whether a ranker must be told which rows belong together."""
    return type(ranker).__name__.endswith("Ranker") and _word(ranker) is not None


def numbered_groups(ranker: Any, groups: ArrayLike | None, n_rows: int) -> NDArray[np.intp] | None:
    """Returns the number of each row's group, in order of first appearance; None if there are no groups.

    Arguments:
        ranker: The ranker that will learn; one that learns from lists is refused without groups.
        groups: One value per row (a query, a session), or None.
        n_rows: How many rows there are.

    Example:
        >>> numbered_groups(None, ["b", "a", "b"], 3).tolist()
        [0, 1, 0]
    """
    if groups is None:
        if learns_from_lists(ranker):
            raise InvalidInput.of(
                "groups",
                None,
                f"the list of each row, which {type(ranker).__name__} learns from",
                "pass fit(X, y, groups=query_ids), or train the ranker yourself and use cv='prefit'",
            )
        return None
    column = np.asarray(groups)
    if column.shape != (n_rows,):
        raise InvalidInput.of(
            "groups", f"an array of shape {column.shape}", f"{n_rows} values, one per row", "pass one"
        )
    _, first, ids = np.unique(column, return_index=True, return_inverse=True)
    found: NDArray[np.intp] = np.argsort(np.argsort(first))[ids]
    return found


def fit_lists(ranker: Any, X: Any, relevance: Any, groups: NDArray[np.intp], weights: Floats | None) -> Any:
    """Trains a ranker on whole lists and returns it.

    Rows of a list are put together, lists in the order of their numbers, rows in their own. LightGBM takes the lists'
    sizes, XGBoost and CatBoost the number of each row's list. XGBoost weighs whole lists: each by its rows' mean.

    Arguments:
        ranker: A ranker for which `learns_from_lists` is true.
        X: Its rows.
        relevance: 0 or 1 per row.
        groups: The number of each row's list.
        weights: How often each row counts.
    """
    order = np.argsort(groups, kind="stable")
    ids, sizes = np.unique(groups[order], return_inverse=True)[1], np.unique(groups, return_counts=True)[1]
    word = _word(ranker)
    given: dict[str, Any] = {str(word): sizes if word == "group" else ids}
    if weights is not None:
        mean = np.bincount(ids, weights[order]) / sizes
        given["sample_weight"] = mean if word == "qid" else weights[order]
    return ranker.fit(_safe_indexing(X, order), np.asarray(relevance)[order], **given)


def _word(ranker: Any) -> str | None:
    taken = inspect.signature(ranker.fit).parameters
    return next((word for word in _WORDS if word in taken), None)
