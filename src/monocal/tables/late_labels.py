r"""Rows whose labels may still come: how long labels take, and how mature each row is.

A positive is seen only once its label has come, so among young rows short delays are over-represented: delays are
right-truncated by the age of their row. With :math:`n_k` delays in bin k and :math:`R_k` delays up to bin k, both among
rows that are old enough for bin k to be over, the share that arrives within bin j is

.. math:: F_j = \prod_{k > j} (1 - h_k), \qquad h_k = n_k / R_k,

the non-parametric maximum likelihood estimate (the product-limit estimate with time reversed). A field value's own
:math:`h_k` is pulled towards that of all rows by :math:`\kappa` pseudo-counts; which field and which :math:`\kappa` is
decided by the beta-binomial likelihood of the counts, and "no field" is one of the choices.

The label of a row of age a has come with probability :math:`F(a)` if it is positive, so what is
seen now is Bernoulli(:math:`p\,F(a)`). Fits and judgements use exactly that; rows older than the window have
:math:`F = 1`.

References:
    Lynden-Bell. A method of allowing for known observational selection in small samples. 1971.
    Chapelle. Modeling delayed feedback in display advertising. 2014.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.special import betaln

from monocal.core.errors import InvalidInput
from monocal.core.numbers import duration_of, plain_values
from monocal.core.scores import Floats
from monocal.tables.categories import EncodedColumn

if TYPE_CHECKING:
    from monocal.tables.table import Table

N_BINS = 24
PSEUDO_COUNTS = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
LEAST_POSITIVES = 100
"""Fewer delays say too little about their distribution."""

Moments = NDArray[np.int64]


@final
@dataclass(frozen=True, eq=False)
class DelayCurve:
    """The share of positives whose label has come by an age.

    Attributes:
        edges: Ends of the bins; the last is the window, after which no label counts.
        shares: The share at each of them, of all rows.
        by: The field whose values have curves of their own; empty if none has.
        value_shares: Value to its own shares.
    """

    edges: Moments
    shares: Floats
    by: str = ""
    value_shares: Mapping[str, Floats] = field(default_factory=dict)

    @property
    def window(self) -> int:
        return int(self.edges[-1])

    def at(self, ages: Moments, values: Sequence[str] = (), ids: NDArray[Any] | None = None) -> Floats:
        """Returns the share that has come by each age.

        Arguments:
            ages: Ages in the unit of the window.
            values: The values of the field `by`.
            ids: Which of them each row has.

        Example:
            >>> curve = DelayCurve(np.array([10, 20]), np.array([0.5, 1.0]))
            >>> curve.at(np.array([0, 5, 10, 15, 99])).tolist()
            [0.0, 0.25, 0.5, 0.75, 1.0]
        """
        knots = np.concatenate([[0], self.edges])
        if ids is None:
            shares: Floats = np.interp(ages, knots, np.concatenate([[0.0], self.shares]))
            return shares
        tables = np.array([[0.0, *self.value_shares.get(value, self.shares)] for value in values])
        inside = np.clip(ages, 0, self.window)
        place = np.clip(np.searchsorted(knots, inside, side="right") - 1, 0, knots.size - 2)
        part = (inside - knots[place]) / (knots[place + 1] - knots[place])
        low, high = tables[ids, place], tables[ids, place + 1]
        found: Floats = low + part * (high - low)
        return found

    @classmethod
    def from_dict(cls, entries: Mapping[str, Any]) -> Self:
        own = {value: np.asarray(shares, dtype=np.float64) for value, shares in entries["value_shares"].items()}
        shares = np.asarray(entries["shares"], dtype=np.float64)
        return cls(np.asarray(entries["edges"], dtype=np.int64), shares, entries["by"], own)


def estimate_delays(
    delays: Moments,
    ages: Moments,
    window: int,
    fields: Mapping[str, tuple[NDArray[Any], Sequence[str]]] | None = None,
) -> DelayCurve | None:
    """Learns the curve from positives that have arrived; None if too few are old enough to tell.

    Arguments:
        delays: From event to label, each at most its row's age and the window.
        ages: Ages of the rows.
        window: After which no label counts.
        fields: Field to the ids of its values in these rows, and the values.

    Example:
        Delays are exponential with mean 2; half of the rows are too young for long ones.

        >>> rng = np.random.default_rng(0)
        >>> delays, ages = rng.exponential(2_000, 20_000), rng.uniform(0, 20_000, 20_000)
        >>> seen = (delays <= ages) & (delays <= 10_000)
        >>> curve = estimate_delays(delays[seen].astype(int), ages[seen].astype(int), 10_000)
        >>> curve.at(np.array([1_000, 2_000, 4_000])).round(1).tolist()
        [0.4, 0.6, 0.9]
    """
    if delays.size < LEAST_POSITIVES or np.count_nonzero(ages >= window) < LEAST_POSITIVES // 4:
        return None
    inner = np.unique(np.quantile(delays, np.linspace(0.0, 1.0, N_BINS + 1)[1:-1]).astype(np.int64))
    edges = np.append(inner[(inner > 0) & (inner < window)], window)
    bins = np.searchsorted(edges, delays)
    # bins that are over for a row: those whose end lies within its age
    n_over = np.searchsorted(edges, ages, side="right")
    n, at_risk = _counts(bins, n_over, np.zeros_like(bins), 1, edges.size)
    hazards = n[0] / np.maximum(at_risk[0], 1.0)
    best = (_likelihood(n, at_risk, hazards, np.inf), "", np.inf, n, at_risk)
    for name, (ids, values) in (fields or {}).items():
        own, risk = _counts(bins, n_over, ids, len(values), edges.size)
        for strength in PSEUDO_COUNTS:
            found = _likelihood(own, risk, hazards, strength)
            if found > best[0]:
                best = (found, name, strength, own, risk)
    shares = _shares(hazards)
    if not best[1]:
        return DelayCurve(edges, shares)
    _, name, strength, own, risk = best
    shrunk = _shares((own + strength * hazards) / (risk + strength))
    values = (fields or {})[name][1]
    known = np.flatnonzero(risk.sum(axis=1)).tolist()
    return DelayCurve(edges, shares, name, {values[at]: shrunk[at] for at in known})


def _counts(
    bins: NDArray[Any], n_over: NDArray[Any], ids: NDArray[Any], n_values: int, n_bins: int
) -> tuple[Floats, Floats]:
    """Delays in each bin, and up to each bin, by value, among rows for which the bin is over."""
    inside = bins < n_over
    place = ids.astype(np.int64)[inside] * (n_bins + 1)
    shape = (n_values, n_bins + 1)
    n = np.bincount(place + bins[inside], minlength=n_values * (n_bins + 1)).reshape(shape)
    ended = np.bincount(place + n_over[inside], minlength=n_values * (n_bins + 1)).reshape(shape)
    # a row is at risk from its own bin to the last one that is over
    return n[:, :-1].astype(np.float64), np.cumsum(n - ended, axis=1)[:, :-1].astype(np.float64)


def _likelihood(n: Floats, at_risk: Floats, hazards: Floats, strength: float) -> float:
    h = np.clip(hazards, 1e-9, 1.0 - 1e-9)
    if not np.isfinite(strength):
        return float(np.sum(n * np.log(h) + (at_risk - n) * np.log1p(-h)))
    a, b = strength * h, strength * (1.0 - h)
    return float(np.sum(betaln(n + a, at_risk - n + b) - betaln(a, b)))


def _shares(hazards: Floats) -> Floats:
    later = np.cumprod((1.0 - hazards)[..., :0:-1], axis=-1)[..., ::-1]
    return np.concatenate([later, np.ones((*hazards.shape[:-1], 1))], axis=-1)


@final
@dataclass(frozen=True, eq=False)
class LateLabels:
    """What is known about labels that may still come.

    Attributes:
        window: After which no label counts, in the unit of the time column.
        mature_share: Share of rows that are older.
        mean_maturity: Mean over all rows of the share of positives whose label has come.
        curve: The delays.
    """

    window: int
    mature_share: float
    mean_maturity: float
    curve: DelayCurve

    def __str__(self) -> str:
        own = f", by {self.curve.by}" if self.curve.by else ""
        return (
            f"late labels: {self.mature_share:.1%} of the rows are older than the window; of all positives "
            f"{self.mean_maturity:.1%} are expected to have come{own}"
        )

    def as_dict(self) -> dict[str, Any]:
        return dict(plain_values(asdict(self)))


def mature(rows: Table, curve: DelayCurve | None = None) -> Table:
    """Returns rows that know their maturity; labels that came after the window do not count.

    The moment of observation is the latest moment in the rows.

    Arguments:
        rows: Rows that were read with the roles `event_time`, `label_time` and `window`, of one task.
        curve: Known delays, for rows that are too few or too young to tell; those of the rows go first.
    """
    if len(rows.labels) != 1 or rows.event_times is None or rows.label_times is None:
        raise InvalidInput.of("label_time", f"{len(rows.labels)} tasks", "one task", "fit and judge tasks one by one")
    ((task, labels),) = rows.labels.items()
    window = str(rows.roles.window)
    length = duration_of(window, has_dates=rows.has_dates, argument="window")
    positive, come = labels == 1, rows.label_times >= 0
    delays = rows.label_times - rows.event_times
    _check(positive, come, delays)
    ages = max(int(rows.event_times.max()), int(rows.label_times.max(initial=0))) - rows.event_times
    counted = positive & (delays <= length)
    texts = {name: _texts(column) for name, column in rows.fields.items() if name in rows.roles.fields}
    fields = {name: (rows.fields[name].ids[counted], values) for name, values in texts.items()}
    found = estimate_delays(delays[counted], ages[counted], length, fields) or curve
    if found is None or found.window != length:
        raise InvalidInput.of(
            "window",
            f"{window!r}, and {np.count_nonzero(counted & (ages >= length)):,} positives in rows older than that",
            "at least 100 positives, a quarter of them in rows older than the window",
            "add older rows, or shorten the window",
        )
    by = found.by if found.by in texts else ""
    shares = found.at(ages, texts[by], rows.fields[by].ids) if by else found.at(ages)
    changed = np.where(positive & ~counted, 0, labels).astype(labels.dtype)
    known = LateLabels(length, float(np.mean(ages >= length)), float(shares.mean()), found)
    return replace(rows, labels={task: changed}, maturity=shares, late_labels=known)


def _check(positive: Any, come: Any, delays: Any) -> None:
    without = "when it came in every row with a positive one", "fill it in, or set the label to 0 until it has come"
    early = "labels that come after their event", "swap the two columns, or fix their time zones"
    for bad, what, (expected, hint) in (
        (positive & ~come, "a positive label without a moment", without),
        (positive & (delays < 0), "a label before its event", early),
    ):
        if bad.any():
            got = f"{what} in {np.count_nonzero(bad):,} rows, the first at row {int(np.argmax(bad))}"
            raise InvalidInput.of("label_time", got, expected, hint)


def _texts(column: EncodedColumn) -> list[str]:
    texts: list[str] = pc.fill_null(column.known_values.cast(pa.string()), "(missing)").to_pylist()
    return texts
