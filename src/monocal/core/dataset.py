"""Rows as numbers that add themselves up: what every fit and every prediction receives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monocal.core.errors import InvalidInput
from monocal.core.fields import FieldSchema, Ids, check_ids
from monocal.core.reduce import BLOCK_ROWS, Partition, rows_between
from monocal.core.scores import (
    Floats,
    SamplingRate,
    ScoreSpace,
    check_labels,
    check_length,
    check_weights,
    cut_soft,
    has_soft,
    log_loss,
    log_losses,
    sampling_shift,
    to_logits,
)

Sums = Sequence[Floats | float]
Rows = NDArray[np.integer[Any]] | NDArray[np.bool_] | slice

_ONES = np.ones(BLOCK_ROWS)

_OUTER_QUANTILE = 0.005


@dataclass(frozen=True)
class Dataset:
    """Rows in time order, oldest first, and how sums over them are made.

    Numeric code asks for sums, maxima and quantiles over all rows, and gets them whether the rows lie here, in blocks,
    or with several processes, each of which has its parts of them (`Partition`). A process without rows takes part
    like any other.

    Attributes:
        z: The ranker's score of each row in logit space, after the sampling correction.
        y: The label of each row, 0.0 or 1.0; None when only predicting.
        w: How often each row counts; None means once.
        ids: Field ids `(n, F)`, int32, 0 = unseen value; None when there are none. May be a memory map.
        times: When each row happened, rising (within each part); None if only the order is known.
        schema: What is known of the fields; see `fields`.
        partition: Where these are one member's rows of a fit that several processes do together: how they are cut.
    """

    z: Floats
    y: Floats | None = None
    w: Floats | None = None
    ids: Ids | None = None
    times: NDArray[Any] | None = None
    schema: FieldSchema | None = None
    partition: Partition | None = None

    @classmethod
    def of(
        cls,
        scores: ArrayLike,
        labels: ArrayLike | None = None,
        *,
        features: Any = None,
        weights: ArrayLike | None = None,
        times: ArrayLike | None = None,
        scores_are: ScoreSpace = "probability",
        sampling_rate: SamplingRate = None,
        soft_labels: bool = False,
        partition: Partition | None = None,
    ) -> Dataset:
        """Checks everything a caller may hand over and returns rows sorted by time (stable).

        Rows with soft labels become two rows each, see `cut_soft`. Rows in parts, whose labels are hard, keep their
        order, which is that of time within each part; a member may have none, or none that counts.

        Example:
            >>> rows = Dataset.of([0.5, 0.9], [0, 1], times=[20, 10])
            >>> rows.z.round(3).tolist(), rows.labels.tolist()
            ([2.197, 0.0], [1.0, 0.0])
        """
        if partition is not None and partition.n > 1:
            assert labels is not None
            columns = {"features": features, "weights": weights}
            space = {"scores_are": scores_are, "sampling_rate": sampling_rate}
            return cls._of_parts(partition, scores, labels, times, **columns, **space)
        logits = to_logits(scores, scores_are)
        n = logits.shape[0]
        if n == 0:
            raise InvalidInput.of("scores", "no rows", "at least one row", "check the filter that produced the table")
        data = cls(
            logits + sampling_shift(sampling_rate, n),
            None if labels is None else check_labels(labels, n, soft=soft_labels),
            None if weights is None else check_weights(weights, n),
            None if features is None else check_ids(features, n),
            None if times is None else check_length(np.asarray(times), n, "times"),
        )
        if soft_labels and data.y is not None:
            data = data.hardened()
        if data.times is None or np.all(data.times[:-1] <= data.times[1:]):
            return data
        return data.take(np.argsort(data.times, kind="stable"))

    @classmethod
    def _of_parts(
        cls, partition: Partition, scores: ArrayLike, labels: ArrayLike, times: ArrayLike | None, **columns: Any
    ) -> Dataset:
        """Returns one member's rows of several parts; further columns as for `of`."""
        moments, weights, features = _moments(times), columns["weights"], columns["features"]
        if np.size(scores) and (weights is None or np.any(weights)):
            return replace(cls.of(scores, labels, **columns), times=moments, partition=partition)
        nothing, none = np.zeros(0), slice(0, 0)
        return cls(
            nothing,
            nothing,
            None if weights is None else nothing,
            None if features is None else check_ids(np.asarray(features)[none], 0),
            None if moments is None else moments[none],
            partition=partition.take(none),
        )

    # What the rows are

    @property
    def n_rows(self) -> int:
        """Rows of this process."""
        return int(self.z.shape[0])

    @property
    def n_all(self) -> int:
        """Rows of all members."""
        return self.n_rows if self.partition is None else self.partition.n_rows(self.n_rows)

    @property
    def labels(self) -> Floats:
        """The labels, for code that runs only after they were checked to be there."""
        if self.y is None:
            raise InvalidInput.of("labels", None, "0/1 labels", "pass the label of every row")
        return self.y

    @property
    def weights(self) -> Floats:
        """How often each row counts, as a column."""
        return np.ones(self.n_rows) if self.w is None else self.w

    @cached_property
    def fields(self) -> FieldSchema:
        """The fields of the rows; if nobody said, as large as the ids of all members ask for."""
        if self.schema is not None:
            return self.schema
        return FieldSchema.of(self.cut.max(FieldSchema.of_ids(self.ids).sizes))

    @property
    def has_both_classes(self) -> bool:
        """Whether rows of positive weight have both labels, among all members."""
        labels = self.labels if self.w is None else self.labels[self.w > 0.0]
        return bool(self.cut.max(np.array([np.any(labels == 0.0), np.any(labels == 1.0)])).all())

    def with_knots(self, n_knots: Sequence[int] | None) -> Dataset:
        """Returns the same rows with a schema of their ids, whose fields of numbers have so many knots.

        Arguments:
            n_knots: Knots per field, 0 for categories; None if all are those.
        """
        own = FieldSchema.of_ids(self.ids, n_knots)
        return replace(self, schema=FieldSchema.of(self.cut.max(own.sizes), own.n_knots))

    def with_fields(self, fields: NDArray[np.int64]) -> Dataset:
        """Returns the same rows, of whose fields only some count; their ids stay where they are."""
        return replace(self, schema=self.fields.chosen(fields))

    def without_fields(self) -> Dataset:
        """Returns the same rows without their fields."""
        return replace(self, ids=None, schema=FieldSchema.of([]))

    def with_z(self, z: Floats) -> Dataset:
        """Returns the same rows with other logits."""
        return replace(self, z=z)

    def hardened(self) -> Dataset:
        """Returns the same rows with soft labels as weighted rows with hard ones; hard rows stay as they are."""
        if not has_soft(self.labels):
            return self
        pieces = cut_soft(self.labels[:, None])
        weights = pieces.shares * self.weights[pieces.rows]
        return replace(self.take(pieces.rows), y=pieces.labels[:, 0].astype(np.float64), w=weights)

    # Some of the rows

    def take(self, rows: Rows) -> Dataset:
        """Returns the chosen rows (a slice makes views, not copies)."""

        def of(column: Any) -> Any:
            return None if column is None else column[rows]

        partition = None if self.partition is None else self.partition.take(rows)
        columns = of(self.y), of(self.w), of(self.ids), of(self.times)
        # the schema is that of all rows, whatever values these have
        schema = vars(self).get("fields") if self.schema is None else self.schema
        return Dataset(self.z[rows], *columns, schema, partition)

    def split_recent(self, share: float) -> tuple[Dataset, Dataset]:
        """Cuts off the most recent `share` of the weight: `(older, recent)`, each with at least one row when n ≥ 2."""
        if self.partition is not None:
            return self._split_parts(self.partition, share)
        if self.w is None:
            cut = self.n_rows - round(self.n_rows * share)
        else:
            mass = np.cumsum(self.w)
            cut = int(np.searchsorted(mass, mass[-1] * (1.0 - share), side="right"))
        cut = min(max(cut, min(1, self.n_rows - 1)), max(self.n_rows - 1, 0))
        return self.take(slice(0, cut)), self.take(slice(cut, None))

    def _split_parts(self, partition: Partition, share: float) -> tuple[Dataset, Dataset]:
        assert partition.order is not None
        parts = partition.parts
        weights = None if self.w is None else [self.w[part] for part in parts]
        total = self.sum(lambda block: [float(block.w.sum())])[0]
        order = [partition.order[part] for part in parts]
        (moment,) = partition.keys_at(np.atleast_1d(total * (1.0 - share)), order, weights)
        # the newest moment is recent in any case
        moment = min(moment, int(partition.max(partition.order.max(initial=0, keepdims=True))[0]))
        cuts = partition.edges[:-1] + np.array([np.searchsorted(keys, moment) for keys in order], dtype=np.int64)
        older, recent = rows_between(partition.edges[:-1], cuts), rows_between(cuts, partition.edges[1:])
        return self.take(older), self.take(recent)

    def newest(self, n_rows: int) -> Dataset:
        """Returns the newest rows, or all if there are no more; of rows in parts, each part's own share of them.

        Example:
            >>> Dataset(np.array([0.1, 0.2, 0.3])).newest(2).z.tolist()
            [0.2, 0.3]
        """
        return self if self.n_all <= n_rows else self.take(self.cut.newest(n_rows))

    def gather_newest(self, n_rows: int, *columns: Floats) -> tuple[Dataset, list[Floats]]:
        """Returns the newest rows of all members in one place, in time order, and their part of further columns.

        Of rows in parts each part gives its own share of the newest, and every member gets those of all, one column
        after the other. Rows of one moment come in a random order that is always the same, so that an order by
        contents is not taken for time. Where the parts know no order across each other, a row's place among those of
        its part stands for it.

        Arguments:
            n_rows: How many rows are wanted; fewer if there are no more.
            columns: One number per row each.

        Example:
            Two parts with the even and the odd rows.

            >>> order = np.array([0, 2, 4, 1, 3, 5])
            >>> from monocal.core.reduce import LOCAL
            >>> partition = Partition(LOCAL, 2, (0, 1), np.array([0, 3, 6]), order)
            >>> rows = Dataset(order / 10.0, np.zeros(6), partition=partition)
            >>> few, (tens,) = rows.gather_newest(4, 10.0 * order)
            >>> few.z.tolist(), tens.tolist(), few.partition
            ([0.2, 0.3, 0.4, 0.5], [20.0, 30.0, 40.0, 50.0], None)
        """
        rows = slice(None) if self.n_all <= n_rows else self.cut.newest(n_rows)
        few, chosen = self.take(rows), [column[rows] for column in columns]
        return (few, chosen) if few.partition is None else _in_one_place(few, few.partition, chosen)

    # Sums over all rows

    @property
    def cut(self) -> Partition:
        """How the rows are cut; all of them are one part if they lie here alone."""
        return self.partition or Partition.whole(self.n_rows)

    def sum(self, of_block: Callable[[Block], Sums]) -> list[Floats]:
        """Returns sums over all rows of all members, from a function that gives those of a block of rows.

        Example:
            >>> rows = Dataset(np.arange(100_000.0), np.ones(100_000))
            >>> [float(total) for total in rows.sum(lambda block: [block.z.sum(), block.w.sum()])]
            [4999950000.0, 100000.0]
        """
        found = []
        for part in self.parts():
            first, *others = part.blocks() or [part]
            total = list(of_block(first))
            for block in others:
                total = [before + added for before, added in zip(total, of_block(block), strict=True)]
            found.append(total)
        return self.cut.add(found)

    def parts(self) -> list[Block]:
        """Returns this member's parts; who adds up their blocks in a way of its own has `cut.add` add the parts."""
        if self.partition is None:
            return [Block(self, slice(0, self.z.shape[0]))]
        cut = self.partition
        return [Block(self, rows, number) for rows, number in zip(cut.parts, cut.numbers, strict=True)]

    def quantiles(self, shares: Floats) -> Floats:
        """Returns quantiles of the logits over all rows; a row of weight k stands k times."""
        if self.partition is not None:
            return self.partition.quantiles(self.z, shares, self.w)
        if self.w is None:
            result: Floats = np.quantile(self.z, shares)
            return result
        order = np.argsort(self.z, kind="stable")
        cumulative = np.cumsum(self.w[order])
        places = shares * max(cumulative[-1] - 1.0, 0.0)
        # where a repeated row would stand: the two neighbours of each place
        below, above = (
            self.z[order][np.minimum(np.searchsorted(cumulative, at, side="right"), self.n_rows - 1)]
            for at in (np.floor(places), np.ceil(places))
        )
        between: Floats = below + (places - np.floor(places)) * (above - below)
        return between

    def knots(self, n_knots: int) -> Floats:
        """Returns increasing knots at quantiles of the logits, at least two of them however the logits repeat.

        Arguments:
            n_knots: At most this many.

        Example:
            >>> Dataset(np.array([2.0, 2.0, 2.0])).knots(12).tolist()
            [1.5, 2.5]
        """
        shares = np.linspace(_OUTER_QUANTILE, 1.0 - _OUTER_QUANTILE, max(n_knots, 2))
        knots: Floats = np.unique(self.quantiles(shares))
        # knots that nearly touch would make a segment whose slope is all rounding
        apart = np.concatenate([[True], np.diff(knots) > 1e-6 * max(float(np.ptp(knots)), 1e-300)])
        knots = knots[apart]
        return knots if knots.shape[0] > 1 else knots[0] + np.array([-0.5, 0.5])

    def log_loss(self, logits: Floats) -> float:
        """Returns the mean cross-entropy of the labels under the logit of each row.

        Example:
            >>> round(Dataset.of([0.5, 0.5], [0, 1]).log_loss(np.array([-1.0, 1.0])), 4)
            0.3133
        """
        if self.partition is None:
            return log_loss(logits, self.labels, self.w)
        loss, weight = self.sum(
            lambda block: [float(block.w @ log_losses(block.of(logits), block.y)), float(block.w.sum())]
        )
        return float(loss / weight)


@final
@dataclass(slots=True, eq=False)
class Block:
    """Consecutive rows of a dataset: one of its parts, or a piece of that with few enough rows for columns beside them.

    Attributes:
        data: The dataset.
        rows: Which of its rows.
        number: Of which of all members' parts they are.
    """

    data: Dataset
    rows: slice
    number: int = 0

    def __len__(self) -> int:
        return int(self.rows.stop - self.rows.start)

    @property
    def z(self) -> Floats:
        return self.data.z[self.rows]

    @property
    def y(self) -> Floats:
        return self.data.labels[self.rows]

    @property
    def w(self) -> Floats:
        """How often each row counts; not to be written to."""
        if self.data.w is not None:
            return self.data.w[self.rows]
        n = self.rows.stop - self.rows.start
        return _ONES[:n] if n <= _ONES.size else np.ones(n)

    @property
    def ids(self) -> Ids:
        """Field ids as an array in the order of rows, all columns of them."""
        if self.data.ids is None:
            return np.zeros((len(self), 0), dtype=np.int32)
        return np.ascontiguousarray(self.data.ids[self.rows])

    def of(self, column: NDArray[Any]) -> NDArray[Any]:
        """Returns these rows' piece of a column of all rows."""
        return column[self.rows]

    def blocks(self, n_rows: int | None = None) -> list[Block]:
        """Returns the rows, so many at a time; as many as `Dataset.sum` takes if nothing is said."""
        stop, n, blocks = self.rows.stop, n_rows or BLOCK_ROWS, []
        for begin in range(self.rows.start, stop, n):
            blocks.append(Block(self.data, slice(begin, min(begin + n, stop)), self.number))
        return blocks


@final
class ChosenIds:
    """Stands where a matrix `(n, F)` of ids stands, and holds a row number of four bytes instead of each row's ids.

    A member has blocks of rows of a log, and fits look at some of them: those before a cut, those after. With 21 fields
    a copy of the ids would be 84 bytes for each such row, of a log that lies on disk, whose pages the system may drop
    and all processes of a machine share. Choosing rows or several fields chooses among row numbers; a single field, or
    `np.asarray`, reads. So what looks at many rows does it in blocks.

    Arguments:
        log: Ids of all rows of the log, a memory map or an array.
        rows: Which of them.
        fields: Which columns; None for all.

    Example:
        >>> log = np.arange(12, dtype=np.int32).reshape(6, 2)
        >>> ids = ChosenIds(log, np.array([1, 4, 5]))
        >>> np.asarray(ids[1:]).tolist(), ids[:, 0].tolist(), ids.shape
        ([[8, 9], [10, 11]], [2, 8, 10], (3, 2))
    """

    ndim = 2

    def __init__(self, log: Ids, rows: NDArray[np.integer[Any]], fields: NDArray[np.int64] | None = None) -> None:
        self._log, self._fields = log, fields
        fits = rows.dtype != np.int32 and log.shape[0] <= np.iinfo(np.int32).max
        self._rows = rows.astype(np.int32) if fits else rows

    @classmethod
    def of(cls, log: Ids, rows: NDArray[np.integer[Any]]) -> Ids:
        """Returns the ids of some rows as what stands where they stand."""
        return cast("Ids", cls(log, rows))

    @property
    def shape(self) -> tuple[int, int]:
        return self._rows.shape[0], self._log.shape[1] if self._fields is None else self._fields.shape[0]

    @property
    def dtype(self) -> np.dtype[np.int32]:
        return self._log.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        rows, field = key if isinstance(key, tuple) else (key, slice(None))
        chosen = self._rows[rows]
        if isinstance(field, int | np.integer):
            return self._log[chosen, field if self._fields is None else self._fields[field]]
        every = np.arange(self._log.shape[1]) if self._fields is None else self._fields
        everything = isinstance(field, slice) and field == slice(None)
        return ChosenIds(self._log, chosen, self._fields if everything else every[field])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("ids of chosen rows are read into a new array; pass copy=None")
        ids = np.take(self._log, self._rows, axis=0)
        ids = ids if self._fields is None else ids[:, self._fields]
        return ids if dtype is None else ids.astype(dtype, copy=False)


def _in_one_place(rows: Dataset, partition: Partition, columns: Sequence[Floats]) -> tuple[Dataset, list[Floats]]:
    parts = partition.parts
    places = [(np.arange(part.stop - part.start) + 0.5) / max(part.stop - part.start, 1) for part in parts]
    moments = partition.gather(places if partition.order is None else [partition.order[part] for part in parts])
    rising = np.lexsort((np.random.default_rng(0).permutation(len(moments)), moments))

    def gathered(column: NDArray[Any]) -> Floats:
        found: Floats = partition.gather([column[part] for part in parts])[rising]
        return found

    ids = None
    if rows.ids is not None:
        ids = np.empty((len(rising), rows.ids.shape[1]), np.int32)
        for field in range(ids.shape[1]):
            ids[:, field] = gathered(rows.ids[:, field])
    times = None if rows.times is None else gathered(rows.times).astype(np.int64)
    weights = None if rows.w is None else gathered(rows.w)
    here = Dataset(gathered(rows.z), gathered(rows.labels), weights, ids, times, rows.schema)
    return here, [gathered(column) for column in columns]


def _moments(times: ArrayLike | None) -> NDArray[np.int64] | None:
    """Returns times as whole numbers, which members can compare; dates as microseconds."""
    if times is None:
        return None
    column = np.asarray(times)
    if column.dtype.kind == "M":
        return column.astype("datetime64[us]").astype(np.int64)
    if column.dtype.kind not in "iu":
        raise InvalidInput.of(
            "times", f"values of type {column.dtype}", "dates or whole numbers for a fit in shards", "round them"
        )
    return column.astype(np.int64)
