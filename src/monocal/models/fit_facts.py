"""What a model remembers about the rows it was fitted on, task by task: sizes, rates, the spread of scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.core.spaces import Floats, sigmoid
from monocal.tables.rows import Rows

_SCORE_BINS = 20
_SHARES = np.linspace(0.0, 1.0, _SCORE_BINS + 1)[1:-1]


def fit_facts(rows: Rows) -> dict[str, dict[str, Any]]:
    """Returns row count, label rate, mean score and score quantiles of every task's observed rows.

    Example:
        >>> from monocal.core.roles import Roles
        >>> from monocal.tables.read import read
        >>> rows = read({"y": [0, 1, None, 0], "p": [0.1, 0.4, 0.9, 0.1]}, Roles.of(score="p", label="y"))
        >>> facts = fit_facts(rows)["y"]
        >>> facts["n_rows"], round(facts["label_rate"], 3), round(facts["mean_score"], 3)
        (3, 0.333, 0.2)
    """
    facts = {}
    for task in rows.scores:
        observed = rows.observed(task)
        logits = observed.logits(task)
        pieces = observed.weights if rows.roles.soft_labels else None
        edges = np.unique(np.quantile(logits, _SHARES))
        shares = np.bincount(np.searchsorted(edges, logits), minlength=edges.size + 1) / observed.n_rows
        facts[task] = {
            "n_rows": observed.n_rows,
            "label_rate": float(np.average(observed.labels[task], weights=pieces)),
            "mean_score": float(np.mean(sigmoid(logits))),
            "score_edges_logit": edges,
            "score_shares": shares,
        }
    return facts


def facts_of_logits(logits: Floats, labels: NDArray[Any], counts: Floats) -> dict[str, Any]:
    """Returns the same facts of rows that are given as distinct logits and labels, each with the number of its rows.

    Example:
        >>> facts = facts_of_logits(np.array([-1.0, 0.0]), np.array([0, 1]), np.array([30.0, 10.0]))
        >>> facts["n_rows"], facts["label_rate"], facts["score_edges_logit"].tolist()
        (40, 0.25, [-1.0, 0.0])
    """
    n_rows = int(counts.sum())
    order = np.argsort(logits, kind="stable")
    below = np.cumsum(counts[order])
    edges = np.unique(logits[order][np.searchsorted(below, np.minimum(_SHARES * (n_rows - 1) + 1, n_rows))])
    return {
        "n_rows": n_rows,
        "label_rate": float(labels @ counts) / n_rows,
        "mean_score": float(sigmoid(logits) @ counts) / n_rows,
        "score_edges_logit": edges,
        "score_shares": np.bincount(np.searchsorted(edges, logits), counts, edges.size + 1) / n_rows,
    }
