"""Cut-offs on probabilities whose precision, recall or false-positive rate is promised with a stated probability."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from numbers import Real
from typing import Any, Literal, final, get_args

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.spaces import Floats
from monocal.tables.tabular import Tabular

Promise = Literal["precision", "recall", "false_positive_rate"]

_N_CANDIDATES = 1_000
_N_CHAINS = 4
_FIRST_CHAIN = 4.0


@final
@dataclass(frozen=True)
class Threshold:
    """A cut-off: rows with `probability >= value` are taken.

    Attributes:
        value: The cut-off; None if the rows cannot support any.
        observed: The promised quantity on the rows that chose it.
        n_rows: Rows it was chosen on.
        n_taken: Of them, rows at or above the cut-off.
        confidence: Probability with which the promise holds for this cut-off alone.
        reason: Why there is none.
    """

    value: float | None
    observed: float | None
    n_rows: int
    n_taken: int
    confidence: float
    reason: str = ""


@final
@dataclass(frozen=True, repr=False)
class Thresholds(Tabular):
    """What was promised, and the cut-offs that keep it; as a table, one row per cut-off.

    Attributes:
        promise: Which quantity.
        target: Its bound: at least for precision and recall, at most for the false-positive rate.
        confidence: Probability with which all cut-offs keep their promise together.
        overall: The cut-off, if groups were not asked for.
        by: Value of the group to its cut-off, the group with most rows first.
    """

    promise: Promise
    target: float
    confidence: float
    overall: Threshold | None
    by: Mapping[str, Threshold]

    def as_dict(self) -> dict[str, Any]:
        """Returns everything for programs, in plain values."""
        return asdict(self)

    def _columns(self) -> dict[str, list[Any]]:
        cuts = self.by if self.overall is None else {"all rows": self.overall}
        facts = {key: [getattr(cut, key) for cut in cuts.values()] for key in ("observed", "n_rows", "n_taken")}
        return {
            "group": list(cuts),
            "threshold": [cut.value for cut in cuts.values()],
            **facts,
            "confidence": [cut.confidence for cut in cuts.values()],
            "reason": [cut.reason for cut in cuts.values()],
        }

    @property
    def told_promise(self) -> str:
        """What holds, and how surely, in words."""
        relation = "at most" if self.promise == "false_positive_rate" else "at least"
        return f"{self.promise.replace('_', ' ')} {relation} {self.target:g} with probability {self.confidence:g}"

    def __repr__(self) -> str:
        found = sum(cut.value is not None for cut in self.by.values())
        if self.overall is None:
            said = f"cut-offs for {found:,} of {len(self.by):,} groups"
        else:
            said = "no cut-off" if self.overall.value is None else f"p >= {self.overall.value:.6f}"
        return f"Thresholds: {self.told_promise}, {said}; to_pandas() tells more"


def promised_thresholds(
    probabilities: Floats,
    labels: Floats,
    *,
    precision: float | None = None,
    recall: float | None = None,
    false_positive_rate: float | None = None,
    confidence: float = 0.95,
    groups: NDArray[Any] | None = None,
) -> Thresholds:
    r"""Returns the loosest cut-off whose precision, or the strictest whose recall, is at least the target.

    Whether a cut-off keeps its promise is an exact binomial test: of the n rows that it takes, k are positive, and
    :math:`P(\mathrm{Bin}(n, \text{target}) \ge k) \le \delta` rejects that the true precision is below the target
    (recall is tested on the positives, the false-positive rate on the negatives). Cut-offs are tested in an order that
    the labels have no part in, and testing ends at the first failure, so that all that passed hold together with
    probability :math:`1 - \delta` however many were tried (fixed-sequence testing; Maurer et al., 1995). Strict
    cut-offs take few rows, so for the precision four sequences begin at different places with :math:`\delta/4` each.
    With groups each gets :math:`\delta` divided by their number: all promises hold together.

    The promise is about rows drawn as these were. It holds for no other world, nor on rows that fitted the model.

    Arguments:
        probabilities: Calibrated, one per row.
        labels: 0 or 1.
        precision: Wanted share of positives among the rows taken, at least.
        recall: Wanted share of the positives that are taken, at least.
        false_positive_rate: Wanted share of the negatives that are taken, at most.
        confidence: Probability with which everything promised holds.
        groups: A value per row; every value gets a cut-off of its own.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> p = rng.random(20_000)
        >>> y = (rng.random(20_000) < p).astype(float)
        >>> found = promised_thresholds(p, y, precision=0.9).overall
        >>> round(found.value, 2), found.observed > 0.9  # the exact answer is 0.8
        (0.82, True)
        >>> promised_thresholds(p[:20], y[:20], precision=0.9).overall.reason
        '20 rows; a precision of 0.9 with confidence 0.95 needs at least 42 rows above the cut-off'
    """
    promise, target = checked_promise(
        precision=precision, recall=recall, false_positive_rate=false_positive_rate, confidence=confidence
    )
    if not np.isin(labels, (0.0, 1.0)).all():
        raise InvalidInput.of("labels", "other numbers than 0 and 1", "0 and 1", "exact binomial bounds need counts")
    if groups is None:
        overall = _threshold(probabilities, labels, promise, target, 1.0 - confidence)
        return Thresholds(promise, target, confidence, overall, {})
    values, counts = np.unique(groups, return_counts=True)
    values = values[np.argsort(-counts, kind="stable")]
    delta = (1.0 - confidence) / max(values.size, 1)
    by = {}
    for value in values:
        at = groups == value
        by[str(value)] = _threshold(probabilities[at], labels[at], promise, target, delta)
    return Thresholds(promise, target, confidence, None, by)


def checked_promise(*, confidence: float = 0.95, **given: float | None) -> tuple[Promise, float]:
    """Returns what is promised and its bound; refuses what `promised_thresholds` could not keep.

    Example:
        >>> checked_promise(precision=0.9)
        ('precision', 0.9)
    """
    targets = {name: target for name, target in given.items() if target is not None}
    if len(targets) != 1:
        raise InvalidInput.of(
            ", ".join(get_args(Promise)), f"{len(targets)} of them", "exactly one", "choose what to promise"
        )
    ((name, target),) = targets.items()
    promise = next((known for known in get_args(Promise) if known == name), None)
    if promise is None:
        raise UnknownName.among("argument of 'threshold'", name, get_args(Promise))
    for argument, value in ((name, target), ("confidence", confidence)):
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        if not (is_number and 0.0 < value < 1.0):
            raise InvalidInput.of(
                argument, value if is_number else repr(value), "a number between 0 and 1", "0.9, for example"
            )
    return promise, float(target)


def _threshold(p: Floats, y: Floats, promise: Promise, target: float, delta: float) -> Threshold:
    order = np.argsort(-p, kind="stable")
    ranked, positives = p[order], np.cumsum(y[order])
    # the last row of every run of equal probabilities: rows at or above it
    ends = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True)) if p.size else np.zeros(0, dtype=np.int64)
    ends = ends[np.unique(np.linspace(0, ends.size - 1, min(ends.size, _N_CANDIDATES)).astype(np.int64))]
    n_taken, k = ends + 1, positives[ends]
    n_positive = float(y.sum())
    if promise == "precision":
        passed, reason = _precision(n_taken, k, target, delta)
    elif promise == "recall":
        passed, reason = _recall(k, n_positive, target, delta)
    else:
        passed, reason = _false_positives(n_taken - k, y.size - n_positive, target, delta)
    if passed is None:
        return Threshold(None, None, int(y.size), 0, 1.0 - delta, f"{y.size:,} rows; {reason}")
    observed = {
        "precision": k[passed] / n_taken[passed],
        "recall": k[passed] / n_positive if n_positive else 1.0,
        "false_positive_rate": (n_taken[passed] - k[passed]) / max(y.size - n_positive, 1.0),
    }[promise]
    return Threshold(float(ranked[ends[passed]]), float(observed), int(y.size), int(n_taken[passed]), 1.0 - delta)


def _precision(n: NDArray[np.int64], k: Floats, target: float, delta: float) -> tuple[int | None, str]:
    """From strict to loose, from several beginnings; the loosest that any sequence reached."""
    from scipy.stats import binom

    share = delta / _N_CHAINS
    least = int(np.ceil(np.log(share) / np.log(target)))
    p_values = binom.sf(k - 1.0, n, target)
    best = None
    for chain in range(_N_CHAINS):
        begin = int(np.searchsorted(n, least * _FIRST_CHAIN**chain))
        fails = np.flatnonzero(p_values[begin:] > share)
        end = (begin + int(fails[0]) if fails.size else n.size) - 1
        if end >= begin and (best is None or end > best):
            best = end
    return best, (
        f"a precision of {target:g} with confidence {1.0 - delta:g} needs at least {least} rows above the cut-off"
        if not n.size or n[-1] < least
        else f"no cut-off is known to have a precision of {target:g}; those tried are too close to it or below"
    )


def _recall(k: Floats, n_positive: float, target: float, delta: float) -> tuple[int | None, str]:
    """From loose to strict; the strictest that passed."""
    from scipy.stats import binom

    passes = binom.sf(k - 1.0, n_positive, target) <= delta
    last = int(np.flatnonzero(~passes)[-1]) + 1 if not passes.all() else 0
    least = int(np.ceil(np.log(delta) / np.log(target)))
    return (last if last < k.size else None), f"a recall of {target:g} needs at least {least} positives"


def _false_positives(k: Floats, n_negative: float, target: float, delta: float) -> tuple[int | None, str]:
    """From strict to loose; the loosest that passed."""
    from scipy.stats import binom

    fails = np.flatnonzero(binom.cdf(k, n_negative, target) > delta)
    end = (int(fails[0]) if fails.size else k.size) - 1
    least = int(np.ceil(np.log(delta) / np.log1p(-target)))
    return (end if end >= 0 else None), f"a false-positive rate of {target:g} needs at least {least} negatives"
