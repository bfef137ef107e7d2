"""What a model remembers of its fit: counts and rates, rows to prove itself by, and how its rows are recognised."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from monocal.core.dataset import Block, Dataset
from monocal.core.errors import InvalidInput, MonocalWarning
from monocal.core.fields import Ids
from monocal.core.folder import fingerprint
from monocal.core.reduce import BLOCK_ROWS, Local, Partition, Reducer, pieces_of
from monocal.core.scores import Floats, sigmoid
from monocal.tables.late_labels import DelayCurve
from monocal.tables.table import Table

if TYPE_CHECKING:
    from monocal.models.model import Model

_SCORE_BINS = 20
_SHARES = np.linspace(0.0, 1.0, _SCORE_BINS + 1)[1:-1]


def fit_facts(rows: Table, shards: Partition | None = None) -> dict[str, dict[str, Any]]:
    """Returns row count, label rate, mean score and score quantiles of every task's observed rows.

    Arguments:
        rows: The rows.
        shards: How they are cut and with whom they are added up; all of them at once if not given.

    Example:
        >>> from monocal.tables.roles import Roles
        >>> from monocal.tables.table import Table
        >>> rows = Table.read({"y": [0, 1, None, 0], "p": [0.1, 0.4, 0.9, 0.1]}, Roles(score="p", label="y"))
        >>> facts = fit_facts(rows)["y"]
        >>> facts["n_rows"], round(facts["label_rate"], 3), round(facts["mean_score"], 3)
        (3, 0.333, 0.2)
    """
    shards, facts = shards or Partition.whole(rows.n_rows), {}
    for task in rows.scores:
        known = rows.labels[task] >= 0
        facts[task] = _facts(rows.observed(task), task, shards if known.all() else shards.take(known))
    return facts


def _facts(rows: Table, task: str, shards: Partition) -> dict[str, Any]:
    logits, labels = rows.logits(task), rows.labels[task]
    pieces = None if rows.weights is None or not rows.roles.soft_labels else np.asarray(rows.weights, np.float64)
    if shards.n == 1:
        edges = np.unique(np.quantile(logits, _SHARES))
    else:
        edges = np.unique(shards.quantiles(logits, _SHARES))

    def sums(block: Block) -> list[Floats | float]:
        in_bins = np.bincount(np.searchsorted(edges, block.z), minlength=edges.size + 1).astype(np.float64)
        return [in_bins, float(block.w @ block.of(labels)), float(block.w.sum()), float(sigmoid(block.z).sum())]

    in_bins, positive, weight, score = Dataset(logits, w=pieces, partition=shards).sum(sums)
    n_rows = int(in_bins.sum())
    return {
        "n_rows": n_rows,
        "label_rate": float(positive / weight),
        "mean_score": float(score) / n_rows,
        "score_edges_logit": edges,
        "score_shares": in_bins / n_rows,
    }


Counts = tuple[NDArray[np.int64], ...]
"""Per field, the rows that each id had; empty where a model does not know."""


def count_values(features: Ids, sizes: Sequence[int], before: Counts = (), team: Reducer | None = None) -> Counts:
    """Returns the rows of every id, added to those that were there before.

    Arguments:
        features: Field ids `(n, F)`.
        sizes: How many ids each field has.
        before: Counts of earlier rows; a field may have grown since.
        team: Who counts together, each its own rows.

    Example:
        >>> features = np.array([[1], [2], [1], [0]], dtype=np.int32)
        >>> counts = count_values(features, [3])
        >>> [field.tolist() for field in counts], [field.tolist() for field in count_values(features + 1, [5], counts)]
        ([[1, 2, 1]], [[1, 3, 3, 1, 0]])
    """
    found = [np.zeros(size, np.int64) for size in sizes]
    # by blocks: counting turns ids into numbers of eight bytes
    for first in range(0, features.shape[0], BLOCK_ROWS):
        block = np.asarray(features[first : first + BLOCK_ROWS])
        for counts, ids in zip(found, block.T, strict=True):
            counts += np.bincount(ids, minlength=counts.size)
    if team is not None:
        found = [team.all_sum(counts) for counts in found]
    for counts, earlier in zip(found, before, strict=bool(before)):
        counts[: earlier.size] += earlier
    return tuple(found)


def times_seen(counts: Counts, features: Ids) -> list[NDArray[np.int64]]:
    """Returns per field how many rows of the fit had each row's value; an unseen value had none.

    Arguments:
        counts: The model's counts.
        features: Field ids `(n, F)`.
    """
    return [np.where(ids > 0, rows[ids], 0) for rows, ids in zip(counts, features.T, strict=True)] if counts else []


_CANARY_ROWS = 32


def canary_of(model: Model, features: Ids, rows: Table) -> dict[str, NDArray[Any]]:
    """Returns some of the rows, spread over all of them, as ids, scores and answers.

    Arguments:
        model: The fitted model.
        features: Field ids of the rows in the model's encoding.
        rows: Their scores and sampling rates.
    """
    spread = np.unique(np.linspace(0, rows.n_rows - 1, _CANARY_ROWS).astype(np.int64))
    few = rows.take(spread)
    ids: Ids = np.ascontiguousarray(features[spread])
    answers = model.predict_ids(ids, few.scores, few.rates)
    stored: dict[str, NDArray[Any]] = {"ids": ids}
    for index, task in enumerate(model.task_names):
        stored[f"score{index}"] = np.asarray(few.scores[task], dtype=np.float64)
        stored[f"answer{index}"] = answers[task]
    if isinstance(few.rates, np.ndarray):
        stored["sampling_rate"] = few.rates
    return stored


MOST_REMEMBERED = 400
"""Tables that a model remembers, the newest ones: a year of days and some."""


def rows_fact(rows: Table, team: Reducer | None = None) -> dict[str, Any]:
    """Returns how many rows there are, a number that tells them from others in any order, and when they happened.

    Arguments:
        rows: The rows.
        team: Who has them together, each its own.

    Example:
        >>> from monocal.tables.roles import Roles
        >>> from monocal.tables.table import Table
        >>> table = {"click": [0, 1, 0], "pctr": [0.1, 0.5, 0.2], "day": [1, 2, 2]}
        >>> rows = Table.read(table, Roles(score="pctr", label="click", time="day"))
        >>> fact = rows_fact(rows)
        >>> fact["n_rows"], fact["first"], fact["last"]
        (3, 1, 2)
        >>> fact["rows"] == rows_fact(rows.take(np.array([2, 0, 1])))["rows"]
        True
    """
    team = team or Local()
    blocks = (rows.take(slice(first, first + BLOCK_ROWS)) for first in range(0, rows.n_rows, BLOCK_ROWS))
    number = sum(int(_marks(block, ()).sum(dtype=np.uint64)) for block in blocks) % 2**64
    # numbers of members add up modulo 2⁶⁴, as integers do
    own = np.array([rows.n_rows, number], dtype=np.uint64)
    n_rows, number = team.all_sum(own.view(np.int64)).view(np.uint64).tolist()
    fact = {"n_rows": n_rows, "rows": fingerprint(n_rows, number)}
    if rows.times is not None:
        ends = [-float(rows.times.min()), float(rows.times.max())] if rows.n_rows else [-np.inf, -np.inf]
        first, last = team.all_max(np.array(ends)) * [-1.0, 1.0]
        fact |= {"first": int(first), "last": int(last)}
    return fact


def time_of_fit(info: Mapping[str, Any], available: Sequence[str]) -> str | None:
    """Returns the column that ordered the rows of the fit, if there was one and it is there."""
    known = info.get("time_column")
    return known if known in available else None


def known_delays(model: Model) -> DelayCurve | None:
    """Returns the delays that a model remembers from its fit, if it does."""
    facts = model.info.get("late_labels")
    return None if facts is None else DelayCurve.from_dict(facts["curve"])


def check_unseen(model: Model, rows: Table, whose: str) -> None:
    """Refuses rows that a model learned from, as far as it remembers: by their values, or because they are not later.

    Arguments:
        model: The model.
        rows: Rows with its scores and fields.
        whose: The model, in words.
    """
    share = share_fitted(model, rows)
    lasts = [earlier["last"] for earlier in model.info.get("learned_from", ()) if "last" in earlier]
    if share != 1.0 and rows.times is not None and lasts and rows.roles.time == model.info.get("time_column"):
        last = max(lasts)
        n_older = int(np.sum(rows.times <= last))
        if n_older:
            shown = np.datetime64(last, "us").astype("datetime64[s]") if rows.has_dates else last
            raise InvalidInput.of(
                f"column {rows.roles.time!r}",
                f"{n_older:,} of {rows.n_rows:,} rows not later than the last one that {whose} learned from ({shown})",
                "later rows only",
                "leave out the older rows with since=",
            )
    if share >= _WORTH_A_WARNING:
        got = f"{rows.n_rows:,} rows, about {share:.0%} of which {whose} learned from"
        raise InvalidInput.of("table", got, "rows it has not seen", "hand over newer rows")


N_KEPT = 1024
"""Kept rows: of 300 judged rows of a fit on 40,000 about eight are among them; small beside everything else in a
model."""

_MOST_HELD = 1 << 20
_LEAST_CONTRAST = 0.1
_WORTH_A_WARNING = 0.1
_FEWEST_FOUND = 2
_STANDARD_ERRORS = 5.0
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def row_sample(
    rows: Table, features: Ids, earlier: Mapping[str, Any] | None = None, shards: Partition | None = None
) -> dict[str, Any]:
    r"""Returns the smallest numbers of rows that occur once: a random sample that does not depend on the rows' order.

    A row's number is made of its labels, scores and ids together. Of N rows, :math:`n_1` values of it occur once and
    :math:`n_2` twice; so a row of the fit is one of those that occur once with probability :math:`n_1/N`, and a new row
    looks like one of them with probability :math:`2 n_2/N` (Good and Turing). Where these are close (rounded scores and
    no fields) rows of the fit cannot be recognised, and nothing is added. Smallest numbers of two tables together are
    the smallest of both samples, so a model that learns more goes on with one sample. Of many rows only those with a
    number below some bound are held for that, about a million.

    Arguments:
        rows: The rows, with labels and scores.
        features: Their field ids `(n, F)`.
        earlier: The sample of rows that the model learned from before.
        shards: With whom the rows are looked at, each member at its own; all of them at once if not given.

    References:
        Good. The population frequencies of species and the estimation of population parameters. 1953.

    Example:
        >>> from monocal.tables.roles import Roles
        >>> from monocal.tables.table import Table
        >>> table = {"click": [0, 1, 0, 0], "pctr": [0.1, 0.5, 0.2, 0.1]}
        >>> rows = Table.read(table, Roles(score="pctr", label="click"))
        >>> found = row_sample(rows.take([0, 1, 2]), np.zeros((3, 0), np.int32))
        >>> len(found["marks"]), found["n_rows"], found["once"], found["twice"]
        (3, 3, 3, 0)
        >>> row_sample(rows, np.zeros((4, 0), np.int32), found) == found  # half of these rows look alike
        True
    """
    shards = shards or Partition.whole(rows.n_rows)
    n_rows = shards.n_rows(rows.n_rows)
    highest = np.uint64(min(2**64 - 1, 2**64 * _MOST_HELD // max(n_rows, 1)))
    held = []
    for part in shards.parts:
        own = [np.zeros(0, np.uint64)]
        for block in pieces_of(part, BLOCK_ROWS):
            numbers = _marks(rows.take(block), np.asarray(features[block]).T)
            own.append(numbers[numbers <= highest])
        held.append(np.concatenate(own))
    # as bits of doubles, which travel to all members as they are
    both = shards.gather([numbers.view(np.float64) for numbers in held]).view(np.uint64)
    marks, counts = np.unique(both, return_counts=True)
    once = marks[counts == 1][:N_KEPT]
    if once.size == N_KEPT:  # shares below the last kept number, where rows are compared: frequent rows weigh much
        marks, counts = marks[marks <= once[-1]], counts[marks <= once[-1]]
    counted = {"n_rows": int(counts.sum()), "once": once.size, "twice": int(np.sum(counts == 2))}
    known = earlier or {}
    if counted["once"] - 2 * counted["twice"] <= _LEAST_CONTRAST * counted["n_rows"]:
        return dict(known)
    kept = {*known.get("marks", ()), *(f"{mark:016x}" for mark in once.tolist())}
    return {"marks": sorted(kept)[:N_KEPT], **{key: known.get(key, 0) + count for key, count in counted.items()}}


def share_fitted(model: Model, rows: Table, features: Ids | None = None) -> float:
    """Returns about which share of rows a model was fitted on; NaN if too few of them can be compared.

    Exactly the rows of a fit are recognised by the fact of them together, however alike they look. Of other rows, the
    model knows all of its rows that occur once and whose number is not above the largest that it kept. Rows are random
    in that respect; so with f the share of known ones among those below, and the probabilities of `row_sample` for a
    row of the fit and a new one, the share is (f − new) / (fit − new); 0 if f is within five standard errors of what
    new rows would have.

    Arguments:
        model: The model.
        rows: Rows with its scores and fields.
        features: Their ids in the model's vocabulary, if they are known already.
    """
    number = rows_fact(rows)["rows"]
    if rows.n_rows and any(number == earlier["rows"] for earlier in model.info.get("learned_from", ())):
        return 1.0
    sample = model.info.get("row_sample") or {}
    if not sample:
        return float("nan")
    kept = np.array([int(mark, 16) for mark in sample["marks"]], dtype=np.uint64)
    ids = model.vocabulary.encode_columns(rows.fields, rows.n_rows) if features is None else features
    marks = _marks(rows, ids.T)
    comparable = marks if kept.size < N_KEPT else marks[marks <= kept.max()]
    found = np.isin(comparable, kept)
    if found.size < _FEWEST_FOUND:
        return float("nan")
    of_fit, of_new = sample["once"] / sample["n_rows"], 2 * sample["twice"] / sample["n_rows"]
    excess = float(found.mean()) - of_new
    # a count of n2 pairs is known to its square root
    variance = of_new * (1.0 - of_new) / found.size + 2.0 * of_new / sample["n_rows"]
    if excess <= _STANDARD_ERRORS * np.sqrt(variance):
        return 0.0
    return float(min(excess / (of_fit - of_new), 1.0))


def warn_about_fitted(model: Model, rows: Table) -> float:
    """Warns if a tenth or more of the rows that a model is evaluated on are rows that it was fitted on.

    Returns the share; NaN if it is not known.
    """
    share = share_fitted(model, rows)
    if share >= _WORTH_A_WARNING:
        warnings.warn(
            f"the model was fitted on about {share:.0%} of the rows that it is judged on, so that it looks better than "
            "it is. Hint: judge it on rows that came after those of its fit",
            MonocalWarning,
            stacklevel=3,
        )
    return share


def _marks(rows: Table, columns: Iterable[NDArray[Any]]) -> NDArray[np.uint64]:
    """One number per row from its labels, scores and ids (a multiplicative hash, folded after every column)."""
    marks = np.zeros(rows.n_rows, dtype=np.uint64)
    parts = [part for task in sorted(rows.scores) for part in (rows.labels[task], rows.scores[task])]
    for part in (*parts, *columns):
        column = np.asarray(part)
        bits = column.astype(np.float64).view(np.uint64) if column.dtype.kind == "f" else column.astype(np.uint64)
        marks = (marks ^ bits) * _FACTOR
        marks ^= marks >> np.uint64(29)
    return marks
