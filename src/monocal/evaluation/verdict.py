"""May a forecast be shipped? Named checks against fixed limits, and the verdict that follows from them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, final

import numpy as np

from monocal.core.errors import InvalidInput
from monocal.core.numbers import percent, plain_values, ratio
from monocal.core.scores import Floats
from monocal.evaluation.result import LEAST_OBSERVATIONS, LEAST_PER_CLASS, Evaluation
from monocal.tables.result import Tabular

Result = Literal["passed", "failed", "cannot tell"]
Decision = Literal["SHIP", "DO NOT SHIP", "NOT ENOUGH DATA"]

_WINDOWS = 4
_STANDARD_ERRORS = 3.0


@final
@dataclass(frozen=True)
class Limits:
    """What a forecast must keep to.

    Attributes:
        pcoc: The smallest and the largest predicted over observed rate.
        mfrce: The largest error by field value, MFRCE, above its noise floor.
    """

    pcoc: tuple[float, float] = (0.9, 1.1)
    mfrce: float = 0.1

    def __post_init__(self) -> None:
        if len(self.pcoc) != 2 or not 0.0 < self.pcoc[0] <= 1.0 <= self.pcoc[1] < math.inf:
            shown = ",".join(f"{end:g}" for end in self.pcoc)
            raise InvalidInput.of("pcoc", shown, "two limits around 1", "leave it out to use 0.9 and 1.1")
        if not self.mfrce > 0.0:
            raise InvalidInput.of("mfrce", self.mfrce, "a number above 0", "leave it out to use 0.1")


DEFAULT_LIMITS = Limits()


@final
@dataclass(frozen=True)
class Check:
    """One clause of a verdict.

    Attributes:
        name: What would be wrong.
        value: What was found; None where there is no number.
        limit: What the value has to keep to.
        result: "cannot tell" where rows or labels are missing.
        text: What is wrong and what to do; empty if nothing is.
    """

    name: str
    value: float | None
    limit: str
    result: Result
    text: str = ""

    @classmethod
    def of(cls, name: str, value: float, limit: str, text: str, *, passed: bool, enough: bool = True) -> Check:
        """Returns a check, whose text is left out if it passed."""
        result: Result = "cannot tell" if not enough else "passed" if passed else "failed"
        return cls(name, value if math.isfinite(value) else None, limit, result, "" if result == "passed" else text)


@final
@dataclass(frozen=True)
class Verdict(Tabular):
    """Whether a method may be shipped, with every check behind that.

    Attributes:
        decision: SHIP, DO NOT SHIP or NOT ENOUGH DATA.
        method: The method that was checked; None if none could be fitted.
        reason: Why, in one sentence.
        checks: All checks, the decisive ones included.
    """

    decision: Decision
    method: str | None
    reason: str
    checks: tuple[Check, ...]

    @classmethod
    def of(cls, checks: Sequence[Check], method: str | None, reason: str) -> Verdict:
        """Returns what checks in order of their weight decide: the first that did not pass, else that it ships.

        Example:
            >>> few = Check("too_few_rows", 24.0, "≥ 50", "cannot tell", "24 rows; about 100 would do")
            >>> print(Verdict.of([few], "platt", "better than the score"))
            NOT ENOUGH DATA: 24 rows; about 100 would do
            >>> print(Verdict.of([], "platt", "better than the score"))
            SHIP platt: better than the score
        """
        first = next(iter(failing(checks)), None)
        if first is None:
            return cls("SHIP", method, reason, tuple(checks))
        decision: Decision = "DO NOT SHIP" if first.result == "failed" else "NOT ENOUGH DATA"
        return cls(decision, method, first.text, tuple(checks))

    @property
    def ships(self) -> bool:
        """Whether the decision is SHIP."""
        return self.decision == "SHIP"

    @property
    def failing(self) -> list[Check]:
        """The checks that did not pass."""
        return failing(self.checks)

    def as_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = plain_values(asdict(self))
        return found

    def __str__(self) -> str:
        return f"{self.decision}{f' {self.method}' if self.ships else ''}: {self.reason}"

    def _columns(self) -> dict[str, list[Any]]:
        names = ("name", "value", "limit", "result", "text")
        return {name: [getattr(check, name) for check in self.checks] for name in names}


def failing(checks: Iterable[Check]) -> list[Check]:
    """Returns the checks that did not pass."""
    return [check for check in checks if check.result != "passed"]


def quality_checks(found: Evaluation, limits: Limits = DEFAULT_LIMITS) -> Iterator[Check]:
    """Yields what can be checked of one forecast, by its own numbers and beside the score that it was made from.

    `not_better`: its log-loss is not below that of the score, beyond noise. `worse_than_constant`: its log-loss is not
    below that of the observed rate for every row. `pcoc` and `mfrce`: beyond their limits; where the interval of PCOC
    reaches beyond both, the rows are too few to tell. `order_damaged`: AUC fell, beyond noise. What was not measured is
    not checked.

    Example:
        A forecast that tells rows apart and says twice too much:

        >>> from monocal.evaluation.evaluate import evaluate
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.uniform(0.0, 0.4, 20_000)
        >>> labels = rng.random(20_000) < truth
        >>> [(check.name, check.result) for check in quality_checks(evaluate(labels, 2.0 * truth))]
        [('worse_than_constant', 'failed'), ('pcoc', 'failed')]
    """
    change = found.change

    def known(name: str) -> bool:
        return name in found.names and math.isfinite(found.value(name))

    if change is not None and known("log_loss"):
        verdict, size = change.verdict("log_loss"), change.size("log_loss")
        text = (
            f"log-loss is {percent(abs(size))} above the score's" if verdict == "worse" else "no better than the score"
        )
        text += ". Hint: use the score as it is, or name fields that tell where it is wrong"
        passed, enough = verdict == "better", verdict != "cannot tell"
        yield Check.of("not_better", size, "< 0 beyond noise", text, passed=passed, enough=enough)
    if known("log_loss") and found.forecast is not None:
        rate = float(np.average(found.forecast.labels, weights=found.forecast.weights))
        if 0.0 < rate < 1.0:
            constant = -rate * math.log(rate) - (1.0 - rate) * math.log1p(-rate)
            share = found.value("log_loss") / constant
            text = f"worse than a constant: log-loss is {ratio(share)} times that of the observed rate for every row"
            yield Check.of("worse_than_constant", share, "< 1", text, passed=share < 1.0)
    if known("pcoc"):
        yield _pcoc(found, limits)
    if known("mfrce") and math.isfinite(found.excess("mfrce")):
        excess = found.excess("mfrce")
        text = f"errors by field value are {percent(excess)} above noise, on average"
        yield Check.of("mfrce", excess, f"≤ {limits.mfrce:g} above noise", text, passed=excess <= limits.mfrce)
    if change is not None and known("auc"):
        size = change.difference("auc")
        text = f"the order is damaged: AUC fell by {ratio(-size)}"
        yield Check.of("order_damaged", size, "≥ 0 within noise", text, passed=change.verdict("auc") != "worse")


def _pcoc(found: Evaluation, limits: Limits) -> Check:
    value, (low, high), (least, most) = found.value("pcoc"), found.interval("pcoc"), limits.pcoc
    shown = f"{ratio(value)}" if math.isnan(low) else f"{ratio(value)} ({ratio(low)} to {ratio(high)})"
    text = f"PCOC, predicted over observed, is {shown}, outside {least:g} to {most:g}"
    enough = not (low < least and high > most)
    if not enough:
        needed = found.n_rows * ((high - low) / (most - least)) ** 2
        text = f"PCOC is known to {shown} only; about {_rounded(needed)} judged rows would do"
    return Check.of("pcoc", value, f"{least:g} … {most:g}", text, passed=least <= value <= most, enough=enough)


def drift_check(found: Evaluation, limits: Limits = DEFAULT_LIMITS) -> Check:
    """Returns whether PCOC stays within its limits in each quarter of rows in time order, as far as noise allows.

    A level that rises and falls is right on average and wrong every day.

    Arguments:
        found: An evaluation of rows in time order.
        limits: Its limits.
    """
    rows, (least, most) = found.rows, limits.pcoc
    weights: Floats = np.ones(len(rows.labels)) if rows.weights is None else np.asarray(rows.weights, np.float64)
    quarters = []
    for part in np.array_split(np.arange(len(weights)), _WINDOWS):
        w, y, p = weights[part], np.asarray(rows.labels[part], np.float64), rows.probabilities[part]
        expected, observed = float(w @ p), float(w @ y)
        noise = _STANDARD_ERRORS * math.sqrt(float(w**2 @ (p * (1.0 - p))))
        # how far the observed sum lies beyond the nearest one within the limits
        beyond = max(expected / most - observed, observed - expected / least) - noise
        quarters.append((beyond, expected / observed if observed else math.inf))
    beyond, worst = max(quarters)
    text = (
        f"the level drifts: PCOC is {ratio(worst)} in a quarter of the judged rows. What comes after the fit cannot be "
        "known; refresh often, or fit on newer rows"
    )
    return Check.of("drift", worst, f"{least:g} … {most:g} by quarter", text, passed=beyond <= 0.0)


def _rounded(number: float) -> str:
    """A number of rows to two digits, upwards."""
    unit = 10 ** max(math.floor(math.log10(max(number, 1.0))) - 1, 0)
    return f"{math.ceil(number / unit) * unit:,}"


def rows_check(found: Evaluation, n_fit: int) -> Check:
    """Returns whether judged rows are enough to claim anything, and about how many rows in all would do.

    Arguments:
        found: The evaluation of the judged rows.
        n_fit: Rows of the fit.
    """
    few, rows = found.too_few(), found.rows
    positive = float(np.average(rows.labels, weights=rows.weights))
    rarer = max(min(positive, 1.0 - positive), 1.0 / len(rows.labels))
    needed = max(LEAST_OBSERVATIONS, LEAST_PER_CLASS / rarer) * (1.0 + n_fit / found.n_rows)
    text = f"{few.partition(';')[0]}; about {_rounded(needed)} rows in all would do"
    limit = f"≥ {LEAST_OBSERVATIONS}, {LEAST_PER_CLASS} of each label"
    return Check.of("too_few_rows", found.n_rows, limit, text, passed=not few, enough=not few)
