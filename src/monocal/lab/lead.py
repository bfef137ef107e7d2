"""Why one method is ahead of another on the same rows: where along score and fields the other is still wrong."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from monocal.core.numbers import percent, ratio, significant
from monocal.core.scores import Floats
from monocal.evaluation.cells import Cells, sum_cells
from monocal.evaluation.compare import MethodComparison
from monocal.evaluation.paired import compare_evaluations
from monocal.evaluation.stats import Spread, spread_of

N_BANDS = 10
"""Bands of the score with equally many rows."""


@final
@dataclass(frozen=True)
class Lead:
    """One method beside another.

    Attributes:
        method: The one that was asked about.
        other: The one it is compared with.
        verdict: How much better or worse it is, or "tie".
        field: The field in whose cells, value by band of the score, the two differ most, among those where errors of
            the other stand out of the noise.
        error: Typical relative error of these cells beyond noise with the method.
        other_error: The same with the other.
        value: The value of the cell that the other has wrong most surely.
        scores: Both ends of that cell's scores.
        pcoc: Predicted over observed clicks of that cell with the method.
        other_pcoc: The same with the other.
        is_visible: Whether the other's errors stand out of the noise in these cells; if not, they are no reason.
    """

    method: str
    other: str
    verdict: str
    field: str
    error: float
    other_error: float
    value: str
    scores: tuple[float, float]
    pcoc: float
    other_pcoc: float
    is_visible: bool

    def __str__(self) -> str:
        if not self.verdict.startswith("better"):
            return f"{self.method} is not ahead of {self.other} on these rows (log-loss: {self.verdict})."
        ahead = f"Log-loss of {self.method} is {self.verdict} than that of {self.other}"
        if not self.is_visible:
            return textwrap.fill(f"{ahead}; no field and score together show beyond noise where.", 79)
        low, high = self.scores
        text = (
            f"{ahead}: errors depend on {self.field} and score together. By {self.field} and tenth of the score, "
            f"{self.other} is typically off by "
            f"{percent(self.other_error, 2)} beyond noise, {self.method} by {percent(self.error, 2)}. Plainest where "
            f"{self.field} is {self.value} and the score {significant(low, 2)} to {significant(high, 2)}: predicted "
            f"over observed clicks are {ratio(self.other_pcoc)} with {self.other}, "
            f"{ratio(self.pcoc)} with {self.method}."
        )
        return textwrap.fill(text, 79)


def explain_lead(
    comparison: MethodComparison, table: pa.Table, fields: tuple[str, ...], score: str, *, method: str, other: str
) -> Lead | None:
    """Says whether a method's log-loss is better than another's, and which field and score it is better about.

    Rows are put into cells: a value of one field and a tenth of the score. Per field the typical error of cells beyond
    noise is measured for both methods; the field where it falls most is named, if what the other leaves stands out of
    the noise. A method that shifts all scores of a value alike leaves such errors where they depend on value and score
    together.

    Arguments:
        comparison: Methods on the same rows.
        table: Those rows.
        fields: Categorical columns of the table.
        score: Its column of uncalibrated scores.
        method: The method to explain.
        other: What it is compared with.

    Returns:
        None if one of the two was not compared.
    """
    reports = {result.method: result.evaluation for result in comparison.results}
    first, second = reports.get(other), reports.get(method)
    if first is None or second is None or first.forecast is None or second.forecast is None or not fields:
        return None
    scores = table[score].to_numpy()
    inner = np.quantile(scores, np.linspace(0.0, 1.0, N_BANDS + 1)[1:-1])
    band = np.searchsorted(inner, scores, side="right")
    found: dict[str, tuple[Spread, Spread, Cells, Cells, list[str]]] = {}
    for field in fields:
        coded = pc.dictionary_encode(table[field].combine_chunks())
        values = [str(value) for value in coded.dictionary.to_pylist()]
        ids, n_cells = coded.indices.to_numpy() * N_BANDS + band, len(values) * N_BANDS
        was, now = (sum_cells(forecast, ids, n_cells) for forecast in (first.forecast, second.forecast))
        found[field] = (spread_of(was.counts), spread_of(now.counts), was, now, values)

    def fall(name: str) -> tuple[bool, float]:
        before, after, *_ = found[name]
        less = before.relative_error - after.relative_error
        return before.is_visible and less > 0.0, less

    chosen = max(found, key=fall)
    before, after, was, now, values = found[chosen]
    worst = _surest(was)
    here = scores[band == worst % N_BANDS]
    return Lead(
        method,
        other,
        compare_evaluations(first, second).describe("log_loss"),
        chosen,
        after.relative_error,
        before.relative_error,
        values[worst // N_BANDS],
        (float(here.min()), float(here.max())),
        float(now.pcoc[worst]),
        float(was.pcoc[worst]),
        fall(chosen)[0],
    )


def _surest(cells: Cells) -> int:
    """The cell whose gap is largest against its noise, among those where something was observed."""
    noise = np.sqrt(np.maximum(cells.predicted - cells.squares, 1.0))
    sureness: Floats = np.where(cells.observed > 0.0, np.abs(cells.gap) / noise, -1.0)
    return int(np.argmax(sureness))
