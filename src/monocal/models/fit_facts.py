"""What a model remembers about the rows it was fitted on, task by task: sizes, rates, the spread of scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from monocal.core.spaces import sigmoid
from monocal.tables.rows import Rows

_SCORE_BINS = 20


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
        edges = np.unique(np.quantile(logits, np.linspace(0.0, 1.0, _SCORE_BINS + 1)[1:-1]))
        shares = np.bincount(np.searchsorted(edges, logits), minlength=edges.size + 1) / observed.n_rows
        facts[task] = {
            "n_rows": observed.n_rows,
            "label_rate": float(np.mean(observed.labels[task])),
            "mean_score": float(np.mean(sigmoid(logits))),
            "score_edges_logit": edges,
            "score_shares": shares,
        }
    return facts
