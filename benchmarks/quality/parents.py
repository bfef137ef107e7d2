"""What fields above the product bring on the promotions log, by how often the fit saw the product.

Reads the prepared data of the study `promotions` (`monocal lab bench promotions` makes them): a million rows to fit,
and every fourth of the test rows.

    python benchmarks/quality/parents.py runs > table.md
    python benchmarks/quality/parents.py runs umc > table_of_umc.md
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from monocal.calibrators import calibrator
from monocal.core.log_loss import log_losses
from monocal.core.spaces import Floats, logit, sigmoid
from monocal.evaluation.fields import by_times_seen
from monocal.lab.studies.study_data import PreparedData
from monocal.models.facts import count_values, times_seen

N_CALIBRATION, EVERY, N_DRAWS = 1_000_000, 4, 1_000
PRODUCT, ABOVE = "product_id", ("product_type", "product_category", "department")
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "wide logistic": ("wide_logistic", {"l2": "auto"}),
    "wide logistic, carry-over": ("wide_logistic", {"l2": "auto", "carry": "auto", "recent_share": 0.2}),
    "umc": ("umc", {"n_threads": 1}),
}


def prepared(cache: Path) -> PreparedData:
    """Returns the prepared rows of the study's second size."""
    found = (PreparedData(folder) for folder in sorted((cache / "data").iterdir()))
    return next(data for data in found if data.facts["n_calibration"] == N_CALIBRATION)


def sets_of_fields(names: tuple[str, ...]) -> dict[str, list[str]]:
    others = [name for name in names if name not in (PRODUCT, *ABOVE)]
    return {
        "product": [PRODUCT],
        "product and parents": [PRODUCT, *ABOVE],
        "all but parents": [PRODUCT, *others],
        "all": list(names),
    }


class Study:
    """The rows, and one line of the table per fit."""

    def __init__(self, data: PreparedData) -> None:
        self.names = tuple(data.field_names)
        self.fit, test, truth = data.calibration(), data.test(), data.truth()
        self.logits, self.features = np.array(test.logits[::EVERY]), np.array(test.features[::EVERY])
        self.labels = np.array(truth.labels[::EVERY])
        assert truth.groups is not None
        self.stores = np.unique(np.array(truth.groups[::EVERY]), return_inverse=True)[1]
        place = [self.names.index(PRODUCT)]
        sizes = [int(max(self.fit.features[:, place].max(), self.features[:, place].max())) + 1]
        self.seen = times_seen(count_values(self.fit.features[:, place], sizes), self.features[:, place])[0]

    def answers(self, method: str, arguments: dict[str, Any], fields: list[str]) -> tuple[Floats, float]:
        columns = [self.names.index(name) for name in fields]
        started = time.process_time()
        fitted = calibrator(method, **arguments).fit(
            self.fit.logits,
            self.fit.labels,
            features=np.ascontiguousarray(self.fit.features[:, columns]),
            times=self.fit.times,
            scores_are="logit",
        )
        cpu_seconds = time.process_time() - started
        return fitted.predict(self.logits, features=np.ascontiguousarray(self.features[:, columns])), cpu_seconds

    def line(self, title: str, p: Floats, base: Floats | None, cpu_seconds: float) -> str:
        bands = by_times_seen(self.seen, self.labels, {"after": p})
        cells = [f"{band.log_loss['after']:.5f} / {band.pcoc['after']:.2f}" for band in bands]
        loss = log_losses(logit(p), self.labels)
        gained = "" if base is None else self.difference(loss - log_losses(logit(base), self.labels))
        pcoc = p.sum() / self.labels.sum()
        return f"| {title} | {loss.mean():.6f} / {pcoc:.3f} | {gained} | {' | '.join(cells)} | {cpu_seconds:.0f} |"

    def difference(self, gaps: Floats) -> str:
        """A mean difference with its 95 % interval over stores."""
        sums, rows = np.bincount(self.stores, gaps), np.bincount(self.stores)
        draws = np.random.default_rng(0).integers(0, sums.size, (N_DRAWS, sums.size))
        spread = (sums[draws].sum(axis=1) / rows[draws].sum(axis=1)).std()
        return f"{gaps.mean():+.6f} ± {1.96 * spread:.6f}"

    def lines(self, methods: Sequence[str]) -> Iterator[str]:
        bands = by_times_seen(self.seen, self.labels, {"score": sigmoid(self.logits)})
        heads = [f"{band.title} ({band.n_rows / self.labels.size:.0%})" for band in bands]
        yield "| fit | all rows | minus the fit without parents | " + " | ".join(heads) + " | CPU s |"
        yield "|" + " --- |" * (len(heads) + 4)
        yield self.line("the ranker's score", sigmoid(self.logits), None, 0.0)
        for title in methods:
            method, arguments = METHODS[title]
            base: Floats | None = None
            for place, (which, fields) in enumerate(sets_of_fields(self.names).items()):
                p, cpu_seconds = self.answers(method, arguments, fields)
                yield self.line(f"{title}: {which}", p, base if place % 2 else None, cpu_seconds)
                base = p


def main() -> None:
    for line in Study(prepared(Path(sys.argv[1]))).lines(sys.argv[2:] or list(METHODS)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
