"""What it costs on the promotions log that P(sold twice) and P(sold) agree.

Heads of the ranker: P(sold) is the DeepFM of the study `promotions`. P(sold twice | sold) and P(sold twice) are
logistic regressions on its logit and the fields, fitted on the weeks before the calibration rows, the first where
something was sold. Each method is then fitted on the most recent calibration rows task by task, and once more with the
product kept.

    python benchmarks/quality/products.py runs/ranked/… > table.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import monocal
from monocal.calibrators import Calibrator, calibrator
from monocal.core.log_loss import log_losses
from monocal.core.spaces import Floats, logit
from monocal.lab.sources.complete_journey import installed_folder, purchase_labels
from monocal.logs.encoded_log import EncodedLog
from monocal.logs.scored_log import ScoredLog
from monocal.models.products import Product

N_TRAIN, N_FIT, EVERY, N_DRAWS = 2_000_000, 400_000, 10, 1_000
FIELDS = ("product_id", "store_id", "placement", "product_type", "product_category", "department")
TASKS = {"sold": ("sold", "p_sold"), "again": ("twice_given_sold", "p_again"), "twice": ("twice", "p_twice")}
METHODS: dict[str, dict[str, Any]] = {"platt": {}, "wide_logistic": {"l2": "auto"}}


class Sample:
    """Rows of the log with both labels."""

    def __init__(self, log: EncodedLog, rows: NDArray[np.int64]) -> None:
        ids = {name: np.asarray(log.features[rows, log.field_names.index(name)]) for name in FIELDS}
        products, stores = (
            np.array([0, *log.vocabulary[name].values.to_pylist()], dtype=np.int64)[ids[name]] for name in FIELDS[:2]
        )
        known = np.flatnonzero((products > 0) & (stores > 0))
        rows, self.ids = rows[known], np.stack([column[known] for column in ids.values()], axis=1)
        assert log.times is not None
        weeks = np.asarray(log.times[rows], dtype=np.int64)
        labels = purchase_labels(installed_folder(), products[known], stores[known], weeks)
        self.sold, self.twice, self.stores = labels["sold"], labels["sold_twice"], stores[known]
        assert np.array_equal(self.sold, np.asarray(log.labels["sold"][rows])), "labels of other rows"
        self.logits = np.asarray(log.scores["sold"][rows], dtype=np.float64)

    def head(self, labels: NDArray[np.int8], where: NDArray[np.bool_]) -> Calibrator:
        fitted = calibrator("wide_logistic", l2="auto")
        return fitted.fit(self.logits[where], labels[where], features=self.ids[where], scores_are="logit")

    def table(self, again: Calibrator, twice: Calibrator) -> pa.Table:
        heads = {"p_sold": 1.0 / (1.0 + np.exp(-self.logits))}
        for name, head in (("p_again", again), ("p_twice", twice)):
            heads[name] = head.predict(self.logits, features=self.ids)
        columns: dict[str, Any] = {"sold": self.sold, "twice": self.twice, **heads}
        columns["twice_given_sold"] = pa.array(self.twice, mask=self.sold == 0)
        return pa.table(columns | {name: self.ids[:, place] for place, name in enumerate(FIELDS)})


def samples(log: EncodedLog) -> Iterator[Sample]:
    """Yields rows of the ranker's weeks, the newest calibration rows, and every tenth row of the test."""
    first, last = log.parts["calibration"].start, log.parts["calibration"].stop
    yield Sample(log, np.arange(max(first - N_TRAIN, 0), first))
    yield Sample(log, np.arange(last - N_FIT, last))
    yield Sample(log, np.arange(log.parts["test"].start, log.parts["test"].stop, EVERY))


def difference(gaps: Floats, stores: NDArray[np.int64]) -> str:
    """A mean difference with its 95 % interval over stores."""
    which = np.unique(stores, return_inverse=True)[1]
    sums, rows = np.bincount(which, gaps), np.bincount(which)
    draws = np.random.default_rng(0).integers(0, sums.size, (N_DRAWS, sums.size))
    spread = (sums[draws].sum(axis=1) / rows[draws].sum(axis=1)).std()
    return f"{gaps.mean():+.7f} ± {1.96 * spread:.7f}"


def main() -> None:
    older, fit, test = samples(ScoredLog.open(sys.argv[1]).as_encoded())
    again = older.head(older.twice, older.sold == 1)
    twice = older.head(older.twice, np.ones(older.sold.size, dtype=bool))
    rows, judged = fit.table(again, twice), test.table(again, twice)
    heads = ("method", "fit", "log-loss of twice", "minus task by task", "PCOC of twice", "largest gap", "rows above")
    print("|", " | ".join(heads), "|\n|" + " --- |" * len(heads), flush=True)
    for method, arguments in METHODS.items():
        losses: list[Floats] = []
        for title, products in (("task by task", []), ("product kept", [Product(("p_sold", "p_again"), "p_twice")])):
            model = monocal.fit(rows, method=method, tasks=TASKS, fields=FIELDS, products=products, **arguments)
            p = model.predict(judged)
            losses.append(log_losses(logit(p["twice"]), test.twice))
            gap = np.abs(p["sold"] * p["again"] - p["twice"]).max()
            above = int((p["twice"] > p["sold"]).sum())
            less = difference(losses[1] - losses[0], test.stores) if len(losses) > 1 else ""
            pcoc = p["twice"].sum() / test.twice.sum()
            cells = (method, title, f"{losses[-1].mean():.7f}", less, f"{pcoc:.3f}", f"{gap:.1e}", f"{above:,}")
            print("|", " | ".join(cells), "|", flush=True)
    print(f"\n{rows.num_rows:,} rows to fit, {judged.num_rows:,} to judge, {test.twice.sum():,} of them sold twice.")


if __name__ == "__main__":
    main()
