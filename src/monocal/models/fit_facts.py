"""What a model remembers about the rows it was fitted on, task by task: sizes, rates, the spread of scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.core.row_weights import weights_of
from monocal.core.shard_order import quantiles_of_shards
from monocal.core.spaces import Floats, sigmoid
from monocal.core.team import Shards
from monocal.tables.rows import Rows

_SCORE_BINS = 20
_SHARES = np.linspace(0.0, 1.0, _SCORE_BINS + 1)[1:-1]


def fit_facts(rows: Rows, shards: Shards | None = None) -> dict[str, dict[str, Any]]:
    """Returns row count, label rate, mean score and score quantiles of every task's observed rows.

    Arguments:
        rows: The rows.
        shards: How they are cut and with whom they are added up; all of them at once if not given.

    Example:
        >>> from monocal.core.roles import Roles
        >>> from monocal.tables.read import read
        >>> rows = read({"y": [0, 1, None, 0], "p": [0.1, 0.4, 0.9, 0.1]}, Roles.of(score="p", label="y"))
        >>> facts = fit_facts(rows)["y"]
        >>> facts["n_rows"], round(facts["label_rate"], 3), round(facts["mean_score"], 3)
        (3, 0.333, 0.2)
    """
    shards, facts = shards or Shards.whole(rows.n_rows), {}
    for task in rows.scores:
        known = rows.labels[task] >= 0
        facts[task] = _facts(rows.observed(task), task, shards if known.all() else shards.kept(known))
    return facts


def _facts(rows: Rows, task: str, shards: Shards) -> dict[str, Any]:
    logits, labels = rows.logits(task), rows.labels[task]
    pieces = None if rows.weights is None or not rows.roles.soft_labels else np.asarray(rows.weights, np.float64)
    if shards.n == 1:
        edges = np.unique(np.quantile(logits, _SHARES))
    else:
        edges = np.unique(quantiles_of_shards(logits, _SHARES, None, shards))

    def sums(block: slice) -> list[Floats | float]:
        weights, some = weights_of(pieces, block, rows.n_rows), logits[block]
        in_bins = np.bincount(np.searchsorted(edges, some), minlength=edges.size + 1).astype(np.float64)
        return [in_bins, float(weights @ labels[block]), float(weights.sum()), float(sigmoid(some).sum())]

    in_bins, positive, weight, score = shards.add_up(sums)
    n_rows = int(in_bins.sum())
    return {
        "n_rows": n_rows,
        "label_rate": float(positive / weight),
        "mean_score": float(score) / n_rows,
        "score_edges_logit": edges,
        "score_shares": in_bins / n_rows,
    }


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
