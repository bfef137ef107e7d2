"""Validated rows: what every calibrator and metric receives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monocal.core.chosen_ids import ChosenIds
from monocal.core.errors import InvalidInput
from monocal.core.numeric_ids import n_numeric_ids
from monocal.core.row_weights import weights_of
from monocal.core.sampling import SamplingRate, sampling_shift
from monocal.core.shard_order import keys_at
from monocal.core.soft_labels import ASK_FOR_SOFT, check_soft, cut_soft, has_soft
from monocal.core.spaces import Floats, ScoreSpace, as_float_column, to_logits
from monocal.core.team import Shards, rows_between

Ids = NDArray[np.int32]

_CHECK_ROWS = 1 << 16

LARGEST_WEIGHT = 1e12
"""The square of the sum of ten million such weights still is a number in float32, in which networks train."""


@dataclass(frozen=True)
class Samples:
    """Rows in time order, oldest first, ready for computation.

    Attributes:
        logits: The ranker's score of each row in logit space, after the sampling correction.
        labels: 0.0 or 1.0 per row; None when only predicting.
        features: Field ids `(n, F)`, int32, 0 = unseen value; None when there are none. May be a memory map.
        weights: How often each row counts; None means once.
        times: When each row happened, rising; None if only the order is known.
        numeric_knots: Knots per field of numbers (see `core.numeric_ids`), 0 for categories; None if all are those.
        shards: Where these are one member's rows of a fit that a team does together: how they are cut. Rows are in
            time order within each shard then.
    """

    logits: Floats
    labels: Floats | None = None
    features: Ids | None = None
    weights: Floats | None = None
    times: NDArray[Any] | None = None
    numeric_knots: tuple[int, ...] | None = None
    shards: Shards | None = None

    @classmethod
    def of(
        cls,
        scores: ArrayLike,
        labels: ArrayLike | None = None,
        *,
        features: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        scores_are: ScoreSpace = "probability",
        sampling_rate: SamplingRate = None,
        times: ArrayLike | None = None,
        soft_labels: bool = False,
        numeric_knots: Sequence[int] | None = None,
    ) -> Samples:
        """Checks everything a caller may hand over and returns samples sorted by time (stable).

        Rows with soft labels become two rows each, see `cut_soft`.

        Example:
            >>> rows = Samples.of([0.5, 0.9], [0, 1], times=[20, 10])
            >>> rows.logits.round(3).tolist(), rows.labels.tolist()
            ([2.197, 0.0], [1.0, 0.0])
        """
        logits = to_logits(scores, scores_are)
        n = logits.shape[0]
        if n == 0:
            raise InvalidInput.of("scores", "no rows", "at least one row", "check the filter that produced the table")
        logits = logits + sampling_shift(sampling_rate, n)
        moments = None if times is None else check_length(np.asarray(times), n, "times")
        samples = cls(
            logits=logits,
            labels=None if labels is None else check_labels(labels, n, soft=soft_labels),
            features=None if features is None else check_features(features, n),
            weights=None if weights is None else check_weights(weights, n),
            times=moments,
            numeric_knots=None if numeric_knots is None or not any(numeric_knots) else tuple(numeric_knots),
        )
        if soft_labels and samples.labels is not None:
            samples = samples.with_hard_labels()
            moments = samples.times
        if moments is None or np.all(moments[:-1] <= moments[1:]):
            return samples
        return samples.take(np.argsort(moments, kind="stable"))

    @property
    def n_rows(self) -> int:
        return int(self.logits.shape[0])

    @property
    def known_labels(self) -> Floats:
        """The labels, for code that runs only after they were checked to be there."""
        if self.labels is None:
            raise InvalidInput.of("labels", None, "0/1 labels", "pass the label of every row")
        return self.labels

    @property
    def weights_or_ones(self) -> Floats:
        return np.ones(self.n_rows) if self.weights is None else self.weights

    def weights_of(self, rows: slice) -> Floats:
        """Returns how often some of the rows count."""
        return weights_of(self.weights, rows, self.n_rows)

    @property
    def in_shards(self) -> Shards:
        """How the rows are cut; all of them are one shard if there is no team."""
        return self.shards or Shards.whole(self.n_rows)

    def take(self, rows: NDArray[np.integer[Any]] | NDArray[np.bool_] | slice) -> Samples:
        """Returns the chosen rows (a slice makes views, not copies)."""

        def of(column: Any) -> Any:
            return None if column is None else column[rows]

        columns = of(self.labels), of(self.features), of(self.weights), of(self.times)
        shards = None if self.shards is None else self.shards.kept(rows)
        return Samples(self.logits[rows], *columns, self.numeric_knots, shards)

    def split_recent(self, share: float) -> tuple[Samples, Samples]:
        """Cuts off the most recent `share` of the weight: `(older, recent)`, each with at least one row when n ≥ 2."""
        if self.shards is not None:
            return self._split_shards(self.shards, share)
        if self.weights is None:
            cut = self.n_rows - round(self.n_rows * share)
        else:
            mass = np.cumsum(self.weights)
            cut = int(np.searchsorted(mass, mass[-1] * (1.0 - share), side="right"))
        cut = min(max(cut, min(1, self.n_rows - 1)), max(self.n_rows - 1, 0))
        return self.take(slice(0, cut)), self.take(slice(cut, None))

    def newest(self, n_rows: int) -> Samples:
        """Returns the newest rows, or all if there are no more; of rows in shards, each shard's own share of them.

        Example:
            >>> Samples(np.array([0.1, 0.2, 0.3])).newest(2).logits.tolist()
            [0.2, 0.3]
        """
        shards = self.in_shards
        if int(shards.team.count(np.array([self.n_rows]))[0]) <= n_rows:
            return self
        return self.take(shards.newest(n_rows)[0])

    def _split_shards(self, shards: Shards, share: float) -> tuple[Samples, Samples]:
        assert shards.order is not None
        parts = [part for _, part in shards.parts()]
        weights = None if self.weights is None else [self.weights[part] for part in parts]
        total = shards.add_up(lambda rows: [float(self.weights_of(rows).sum())])[0]
        order = [shards.order[part] for part in parts]
        (moment,) = keys_at(np.atleast_1d(total * (1.0 - share)), order, weights, shards)
        # the newest moment is recent in any case
        moment = min(moment, shards.most(shards.order.max(initial=0, keepdims=True))[0])
        cuts = shards.edges[:-1] + np.array([np.searchsorted(keys, moment) for keys in order], dtype=np.int64)
        return self.take(rows_between(shards.edges[:-1], cuts)), self.take(rows_between(cuts, shards.edges[1:]))

    def with_hard_labels(self) -> Samples:
        """Returns the same rows with soft labels as weighted rows with hard ones; hard rows stay as they are."""
        if not has_soft(self.known_labels):
            return self
        pieces = cut_soft(self.known_labels[:, None])
        weights = pieces.shares * self.weights_or_ones[pieces.rows]
        return replace(self.take(pieces.rows), labels=pieces.labels[:, 0].astype(np.float64), weights=weights)

    def field_sizes(self) -> NDArray[np.int64]:
        """Returns how many ids each field has: by the largest one present, or by its knots."""
        if self.features is None:
            return np.zeros(0, dtype=np.int64)
        knots = self.numeric_knots or (0,) * self.features.shape[1]
        largest = [int(self.features[:, f].max(initial=0)) + 1 for f in range(self.features.shape[1])]
        sizes = [n_numeric_ids(n) if n else size for n, size in zip(knots, largest, strict=True)]
        return np.array(sizes, dtype=np.int64)

    def with_logits(self, logits: Floats) -> Samples:
        return replace(self, logits=logits)


def check_length(column: NDArray[Any], n_rows: int, argument: str) -> NDArray[Any]:
    """Refuses a column whose length differs from the scores'."""
    if column.ndim == 0 or column.shape[0] != n_rows:
        got = "a single value" if column.ndim == 0 else f"{column.shape[0]} rows"
        raise InvalidInput.of(argument, got, f"{n_rows} rows, as many as scores", "pass columns of the same table")
    return column


def check_labels(labels: ArrayLike, n_rows: int, *, soft: bool = False) -> Floats:
    """Returns 0/1 labels as float64, or names the first row that is neither; soft ones may be anything between."""
    column = check_length(as_float_column(labels, "labels"), n_rows, "labels")
    if soft:
        return check_soft(column, "labels")
    bad = np.flatnonzero((column != 0.0) & (column != 1.0))
    if bad.size:
        row = int(bad[0])
        raise InvalidInput.of("labels", f"{column[row]:g} at row {row}", "0 or 1 in every row", ASK_FOR_SOFT)
    return column


def check_weights(weights: ArrayLike, n_rows: int) -> Floats:
    """Returns weights as float64; they must be ≥ 0, not all zero, and at most `LARGEST_WEIGHT`."""
    column = check_length(as_float_column(weights, "weights"), n_rows, "weights")
    bad = np.flatnonzero(column < 0.0)
    if bad.size:
        row = int(bad[0])
        raise InvalidInput.of(
            "weights", f"{column[row]:g} at row {row}", "numbers that are zero or positive", "drop the row or use 0"
        )
    if column.size and column.max() > LARGEST_WEIGHT:
        row = int(np.argmax(column > LARGEST_WEIGHT))
        raise InvalidInput.of(
            "weights",
            f"{column[row]:g} at row {row}",
            f"numbers from 0 to {LARGEST_WEIGHT:g}, whose sums do not overflow",
            "divide all weights by the largest one, or mend the row",
        )
    if not np.any(column > 0.0):
        raise InvalidInput.of("weights", "only zeros", "at least one positive weight", "leave weights out to use 1")
    return column


def check_features(features: ArrayLike, n_rows: int) -> Ids:
    """Returns field ids as an int32 matrix without copying one that already is (memory maps stay on disk)."""
    # chosen rows of a log stand where an array stands, and are not read here
    matrix: NDArray[Any] = cast("Any", features if isinstance(features, np.ndarray | ChosenIds) else np.array(features))
    if matrix.ndim == 1:
        matrix = matrix[:, None]
    if matrix.ndim != 2:
        raise InvalidInput.of(
            "features", f"an array of shape {matrix.shape}", "a matrix (rows, fields) of ids", "stack fields as columns"
        )
    check_length(matrix, n_rows, "features")
    if matrix.dtype.kind not in "iu":
        raise InvalidInput.of(
            "features",
            f"values of type {matrix.dtype}",
            "integer ids per field value (0 = unseen)",
            "use monocal.fit on a table with raw values, or encode them with monocal.tables.vocabulary.Vocabulary",
        )
    for start in range(0, n_rows, _CHECK_ROWS):
        block = np.asarray(matrix[start : start + _CHECK_ROWS])
        if block.size and int(block.min()) < 0:
            row, field = (int(i) for i in np.argwhere(block < 0)[0])
            raise InvalidInput.of(
                "features", f"{block[row, field]} at row {start + row}, field {field}", "ids ≥ 0", "use 0 for unseen"
            )
    return matrix if matrix.dtype == np.int32 else matrix.astype(np.int32)
