"""What a fit, a table that is read and a table of metrics cost."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import log_loss, roc_auc_score
from torch import nn

import monocal
from monocal.lab.simulator import simulate_log
from monocal.tables.roles import Roles
from monocal.tables.table import Table
from suite.timing import Row, best_of

BATCH = 4096
PLAIN = "plain torch: vectors of 16, trunk 128-128, two epochs"
ISOTONIC = "scikit-learn's isotonic fit"


def fits(n_rows: int, rounds: int) -> list[Row]:
    """Returns rows of whole fits from ids, of reading, and of judging; everything in this process, warmed up."""
    log = simulate_log(n_rows, seed=0, world="default")
    ids, logits, labels = log.features, log.logits, log.labels

    def fit(method: str, **options):
        return lambda: monocal.calibrator(method, **options).fit(logits, labels, features=ids, scores_are="logit")

    p = log.scores
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        pq.write_table(log.table(), path)
        fields = list(log.field_names)
        roles = Roles(score="pctr", label="click", fields=fields, time="timestamp")
        columns = {name: ids[:, place] for place, name in enumerate(log.field_names)}
        found = best_of(
            {
                "umc": fit("umc"),
                "umc without carry-over": fit("umc", carry="none"),
                "wide_logistic": fit("wide_logistic"),
                "platt": fit("platt"),
                "plain": lambda: _plain(ids, logits, labels),
                "isotonic": lambda: IsotonicRegression(out_of_bounds="clip").fit(p, labels),
                "read": lambda: Table.read(path, roles),
                "arrow": lambda: pq.read_table(path),
                "metrics": lambda: _judged(labels, p, columns),
                "scikit-learn": lambda: (log_loss(labels, p), roc_auc_score(labels, p)),
            },
            rounds=rounds,
        )
    rows = [Row(f"fit of {name}", found[name], PLAIN, found["plain"]) for name in ("umc", "umc without carry-over")]
    rows += [Row(f"fit of {name}", found[name], ISOTONIC, found["isotonic"]) for name in ("wide_logistic", "platt")]
    rows.append(Row("reading a Parquet table into ids", found["read"], "pyarrow reads the columns", found["arrow"]))
    rows.append(
        Row(
            "all metrics, six fields' errors among them",
            found["metrics"],
            "scikit-learn's log-loss and AUC",
            found["scikit-learn"],
        )
    )
    return rows


def _judged(labels: np.ndarray, p: np.ndarray, fields: dict[str, np.ndarray]) -> list[float]:
    report = monocal.evaluate(labels, p, fields=fields)
    return [report.value(name) for name in report.names]


def _plain(ids: np.ndarray, logits: np.ndarray, labels: np.ndarray) -> None:
    """A network of the same size in a few lines of torch, as one would write it."""
    sizes = ids.max(axis=0) + 1
    places = torch.as_tensor(ids + np.concatenate([[0], np.cumsum(sizes)[:-1]]))
    z, y = torch.as_tensor(logits).float(), torch.as_tensor(labels).float()
    vectors, widths = nn.Embedding(int(sizes.sum()), 16), [16 * len(sizes) + 1, 128, 128, 1]
    net = nn.Sequential(*(part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())))[:-1]
    adam = torch.optim.Adam([*vectors.parameters(), *net.parameters()])
    for _ in range(2):
        for rows in torch.randperm(len(y)).split(BATCH):
            adam.zero_grad()
            inputs = torch.cat([vectors(places[rows]).flatten(1), z[rows, None]], dim=1)
            nn.functional.binary_cross_entropy_with_logits(z[rows] + net(inputs)[:, 0], y[rows]).backward()
            adam.step()
