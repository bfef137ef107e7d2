"""The score of any ranker, and its lists of rows in the words of each library."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import _safe_indexing, get_tags

from monocal.core.errors import InvalidInput, check_known
from monocal.core.scores import Floats, ScoreSpace

ScoreFrom = Literal["auto", "raw", "decision_function", "predict_proba", "predict"]
"""Which answer of a ranker is its score; `raw` is the sum of the trees of LightGBM, XGBoost or CatBoost."""

_RAW: dict[str, dict[str, Any]] = {
    "lightgbm": {"raw_score": True},
    "xgboost": {"output_margin": True},
    "catboost": {"prediction_type": "RawFormulaVal"},
}


def ranker_scores(ranker: Any, X: Any, score_from: ScoreFrom = "auto") -> tuple[Floats, ScoreSpace]:
    """Returns one score per row and its space: a probability from `predict_proba`, a logit from everything else.

    Trees of LightGBM, XGBoost and CatBoost are asked for their raw sums, which no link function has saturated. Others
    are asked for `decision_function`, else `predict_proba`, else `predict`. A ranker that knows the names of its
    columns gets these of a data frame, so that the frame may hold the calibrator's fields as well.

    Arguments:
        ranker: The fitted ranker.
        X: Rows as it takes them.
        score_from: Which answer to take; `auto` chooses as above.

    Example:
        >>> from sklearn.linear_model import LogisticRegression
        >>> ranker = LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
        >>> scores, space = ranker_scores(ranker, [[1.5]])
        >>> abs(round(float(scores[0]), 3)), space
        (0.0, 'logit')
    """
    check_known("score_from", score_from, get_args(ScoreFrom))
    library = _library(ranker)
    if score_from == "auto":
        found = [name for name in ("decision_function", "predict_proba", "predict") if hasattr(ranker, name)]
        if not library and not found:
            raise InvalidInput.of(
                "estimator",
                f"a {type(ranker).__name__}",
                "a ranker with decision_function, predict_proba or predict",
                "pass the ranker itself, trained on other rows",
            )
        score_from = "raw" if library else found[0]  # type: ignore[assignment]
    rows = own_columns(ranker, X)
    if score_from == "raw":
        if library is None:
            raise InvalidInput.of(
                "score_from",
                f"'raw' of {type(ranker).__name__}",
                "a ranker of LightGBM, XGBoost or CatBoost",
                "use score_from='decision_function', 'predict_proba' or 'predict'",
            )
        # CatBoostRanker answers with the raw sum and does not take the word for it
        taken = inspect.signature(ranker.predict).parameters
        options = {} if library == "catboost" and "prediction_type" not in taken else _RAW[library]
        answer = ranker.predict(_matrix(ranker, rows), **options)
    elif not hasattr(ranker, score_from):
        raise InvalidInput.of(
            "score_from",
            f"{score_from!r} of {type(ranker).__name__}, which has none",
            "an answer that the ranker gives",
            "use score_from='auto'",
        )
    else:
        answer = getattr(ranker, score_from)(_matrix(ranker, rows))
    return _one_column(np.asarray(answer, dtype=np.float64)), (
        "probability" if score_from == "predict_proba" else "logit"
    )


def _library(ranker: Any) -> str | None:
    roots = [kind.__module__.partition(".")[0] for kind in type(ranker).__mro__]
    return next((root for root in roots if root in _RAW), None)


def own_columns(ranker: Any, X: Any, fields: Sequence[str | int] = ()) -> Any:
    """Returns what a ranker takes of rows that hold the calibrator's fields as well.

    One that knows the names of its columns gets these of a data frame. Others get everything but those fields whose
    values are text, unless a part of them encodes categories or chooses columns itself.

    Arguments:
        ranker: The ranker, fitted or not.
        X: A data frame or an array.
        fields: Names (in a data frame) or places of the calibrator's fields.

    Example:
        >>> import pandas as pd
        >>> from sklearn.linear_model import LogisticRegression
        >>> own_columns(LogisticRegression(), pd.DataFrame({"a": [1.0], "site": ["news"]}), ["site"]).columns.tolist()
        ['a']
    """
    chosen, columns = _known_names(ranker), getattr(X, "columns", None)
    given = [] if columns is None else list(columns)
    if chosen and set(chosen) <= set(given):
        return X[chosen] if len(given) > len(chosen) else X
    texts = [field for field in fields if _is_text(_column(X, field)) and not _asks_for(ranker, _column(X, field))]
    if not texts:
        return X
    if columns is not None:
        places = [given[field] if isinstance(field, int) and field not in given else field for field in texts]
        return X[[name for name in given if name not in places]]
    return _safe_indexing(X, [place for place in range(X.shape[1]) if place not in texts], axis=1)


def _known_names(ranker: Any) -> list[Any]:
    for attribute in ("feature_names_in_", "feature_name", "feature_names", "feature_names_"):
        names = getattr(ranker, attribute, None)
        if names is not None:
            return list(names() if callable(names) else names)
    return []


def _column(X: Any, field: str | int) -> Any:
    return X[field] if isinstance(field, str) else _safe_indexing(X, field, axis=1)


def _is_text(column: Any) -> bool:
    values = np.asarray(column)
    if values.dtype == object:  # arrays that hold text beside numbers
        return any(isinstance(value, str) for value in values.ravel())
    return values.dtype.kind not in "biuf"


def _asks_for(ranker: Any, column: Any) -> bool:
    """Whether a ranker can use a column of text: it encodes it, chooses columns by itself, or knows its type."""
    given = ranker.get_params() if hasattr(ranker, "get_params") else {}
    parts = [ranker, *given.values()]
    tags = [get_tags(part).input_tags for part in parts if hasattr(part, "__sklearn_tags__")]
    chooses = any(hasattr(part, "transformers") for part in parts) or given.get("cat_features") is not None
    knows_categories = _library(ranker) is not None or "categorical_features" in given
    is_category = str(getattr(column, "dtype", "")).lower().startswith("categor")
    return chooses or any(tag.categorical or tag.string for tag in tags) or (knows_categories and is_category)


def _matrix(ranker: Any, rows: Any) -> Any:
    """XGBoost's own booster takes no arrays."""
    if _library(ranker) == "xgboost" and type(ranker).__name__ == "Booster" and type(rows).__name__ != "DMatrix":
        import xgboost

        return xgboost.DMatrix(rows)
    return rows


def _one_column(answer: Floats) -> Floats:
    if answer.ndim == 2 and answer.shape[1] == 2:
        return answer[:, 1]
    if answer.ndim == 2 and answer.shape[1] == 1:
        return answer[:, 0]
    if answer.ndim != 1:
        raise InvalidInput.of(
            "ranker",
            f"answers of shape {answer.shape}",
            "one score per row, or the probabilities of two classes",
            "wrap a ranker of one 0/1 outcome",
        )
    return answer


_WORDS = ("qid", "group_id", "group")
"""How `fit` of XGBRanker, CatBoostRanker and LGBMRanker calls it; XGBRanker knows the last one, too."""


def learns_from_lists(ranker: Any) -> bool:
    """Returns whether a ranker needs to know which rows belong together."""
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
