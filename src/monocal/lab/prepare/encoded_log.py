"""The encoded log: ids, labels and the other columns of a log as memory maps, with the vocabulary that made them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monocal.core.errors import InvalidInput, check_known
from monocal.core.fields import Ids, check_ids
from monocal.core.files import local_path
from monocal.core.folder import fingerprint
from monocal.core.scores import check_length
from monocal.lab.prepare.splits import DEFAULT_SHARES, RowRange, split_by_share
from monocal.neural.batches import batches_in_order
from monocal.tables.encoded import VOCABULARY, LogManifest, table_of_arrays, write_arrays
from monocal.tables.roles import Roles
from monocal.tables.table import Table
from monocal.tables.vocabulary import Vocabulary
from monocal.tables.vocabulary_file import load_vocabulary

Labels = NDArray[np.int8]
MISSING_LABEL = -1


Numbers = NDArray[np.int64]

ARRAYS = ("history_order", "history_first", "history_stop")
"""Arrays of an encoded log that hold its histories."""


@final
@dataclass(frozen=True, eq=False)
class Histories:
    """The past of rows, as row numbers of the whole log.

    The past of row i is `order[first[i] : stop[i]]`, oldest first: rows of the same user with a *strictly earlier*
    time. Rows of the same moment, such as the other items of one page, are not in it, for when the row is ranked their
    outcomes are not known. Outcomes that become known only after the next request are: a log does not say when labels
    came.

    Attributes:
        order: Row numbers by user and, for each user, in time order.
        first: Where in `order` the past of each row begins.
        stop: Where it ends.
        features: Ids of the whole log.
        labels: Task to labels of the whole log.
    """

    order: Numbers
    first: Numbers
    stop: Numbers
    features: Ids
    labels: Mapping[str, NDArray[np.int8]]

    def take(self, rows: Any) -> Histories:
        """Returns the past of the chosen rows."""
        return replace(self, first=self.first[rows], stop=self.stop[rows])

    def last(self, rows: Any, n_last: int) -> Numbers:
        """Returns the rows of the last events before each row `(b, n_last)`, newest first; −1 where none is left.

        Arguments:
            rows: Which rows, as a slice or as numbers.
            n_last: How many events to look back.
        """
        places = self.stop[rows][:, None] - 1 - np.arange(n_last)
        known = places >= self.first[rows][:, None]
        events = np.full(places.shape, -1, np.int64)
        events[known] = self.order[places[known]]
        return events


class LogBatch(NamedTuple):
    """Some rows of an encoded log."""

    features: Ids
    labels: dict[str, Labels]
    weights: NDArray[np.float32] | None
    rows: NDArray[np.int64]


@final
@dataclass(frozen=True, eq=False)
class EncodedLog:
    """Rows in time order, oldest first, as arrays that may be memory maps; nothing here is ever changed.

    Attributes:
        features: Ids `(n, F)`, int32, 0 = unseen value.
        labels: Task to int8 labels: 0, 1, or -1 where the task was not observed.
        vocabulary: The values behind the ids.
        roles: What the columns of the raw log meant.
        times: int64; timestamps and dates are microseconds since 1970 (UTC), integers are as in the log.
        groups: int32 numbers of the groups, in order of first appearance.
        weights: float32; None means 1.
        scores: Task to float64 scores of an existing ranker, in the space that the roles say.
        sampling_rates: float64 share of negatives kept; None means 1.
        histories: What each row's user did before; None unless asked for.
        parts: Named consecutive parts; the vocabulary was fitted on "train" unless asked otherwise.
        fingerprint: Changes whenever anything above changes.
        folder: Where the files are; None for a log in memory.

    Example:
        >>> import pyarrow as pa
        >>> table = pa.table({"site": ["a", "b", "a", "c"], "click": [0, 1, 0, 0]})
        >>> roles = Roles(label="click", fields=["site"])
        >>> vocabulary = Vocabulary.of_table(table, ["site"])
        >>> log = EncodedLog.of(vocabulary.encode(table), {"click": [0, 1, 0, 0]}, vocabulary, roles)
        >>> log.n_rows, log.features[:, 0].tolist(), log.slice(0, 2).labels["click"].tolist()
        (4, [1, 2, 1, 3], [0, 1])
    """

    features: Ids
    labels: Mapping[str, Labels]
    vocabulary: Vocabulary
    roles: Roles
    fingerprint: str
    times: NDArray[np.int64] | None = None
    groups: NDArray[np.int32] | None = None
    weights: NDArray[np.float32] | None = None
    scores: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    sampling_rates: NDArray[np.float64] | None = None
    parts: Mapping[str, RowRange] = field(default_factory=dict)
    folder: Path | None = None
    histories: Histories | None = None

    @classmethod
    def of(
        cls,
        features: ArrayLike,
        labels: Mapping[str, ArrayLike],
        vocabulary: Vocabulary,
        roles: Roles,
        *,
        times: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        scores: Mapping[str, ArrayLike] | None = None,
        sampling_rates: ArrayLike | None = None,
        shares: Mapping[str, float] = DEFAULT_SHARES,
    ) -> EncodedLog:
        """Builds a log from arrays in memory (or already mapped) and fingerprints their contents."""
        n_rows = len(np.asarray(features))
        ids = check_ids(features, n_rows)
        if ids.shape[1] != len(vocabulary.names):
            raise InvalidInput.of(
                "features", f"{ids.shape[1]} fields", f"{len(vocabulary.names)}, as the vocabulary", "encode again"
            )
        columns: dict[str, NDArray[Any]] = {"features": ids}
        columns |= {f"label:{task}": _check_labels(task, column) for task, column in labels.items()}
        columns |= {f"score:{task}": np.asarray(column, dtype=np.float64) for task, column in (scores or {}).items()}
        optional = (
            ("time", times, np.int64),
            ("group", groups, np.int32),
            ("weight", weights, np.float32),
            ("sampling_rate", sampling_rates, np.float64),
        )
        columns |= {name: np.asarray(column, dtype=kind) for name, column, kind in optional if column is not None}
        for name, column in columns.items():
            check_length(column, n_rows, name)
        parts = split_by_share(n_rows, shares)
        mark = fingerprint(roles.to_dict(), vocabulary.fingerprint, parts, *sorted(columns), *columns.values())
        return cls._of_columns(columns, vocabulary, roles, mark, parts)

    @classmethod
    def open(cls, folder: str | Path, *, check_contents: bool = False) -> EncodedLog:
        """Maps the files of a finished folder into memory.

        The manifest must be whole and every file must have its size; `check_contents` also reads every file
        and compares checksums. Anything else is refused with `ArtefactError`.
        """
        folder = Path(folder)
        manifest = LogManifest.read(folder)
        columns = manifest.map_arrays(folder, contents=check_contents)
        parts = {name: RowRange(*part) for name, part in manifest.parts.items()}
        roles = Roles.from_dict(manifest.schema)
        vocabulary = load_vocabulary(folder / VOCABULARY)
        log = cls._of_columns(columns, vocabulary, roles, manifest.fingerprint, parts)
        past = None
        if ARRAYS[0] in columns:
            order, first, stop = (columns[name] for name in ARRAYS)
            past = Histories(order, first, stop, log.features, log.labels)
        return replace(log, folder=folder, histories=past)

    def save(self, folder: str | Path) -> EncodedLog:
        """Writes the log as a folder, whole or not at all, and returns the log opened from it.

        Histories are kept if they are of the whole log; the past of some rows lies in others.
        """
        folder = local_path(folder, "output folder")
        columns = self._columns()
        if self.histories is not None and len(self.histories.order) == self.n_rows:
            past = self.histories
            columns |= dict(zip(ARRAYS, (past.order, past.first, past.stop), strict=True))
        write_arrays(folder, columns, self.vocabulary, self.roles, self.parts)
        return EncodedLog.open(folder)

    @property
    def n_rows(self) -> int:
        return int(self.features.shape[0])

    @property
    def n_fields(self) -> int:
        return int(self.features.shape[1])

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(self.labels)

    @property
    def field_names(self) -> tuple[str, ...]:
        return self.vocabulary.names

    @property
    def field_sizes(self) -> tuple[int, ...]:
        """Ids per field, the unseen one included."""
        return self.vocabulary.sizes

    def part(self, name: str) -> EncodedLog:
        """Returns one of the named parts, as views."""
        check_known("part", name, self.parts)
        return self.slice(*self.parts[name])

    def slice(self, start: int, stop: int) -> EncodedLog:
        """Returns rows `start ≤ row < stop` as views: nothing is copied."""
        start, stop, _ = slice(start, stop).indices(self.n_rows)
        return self._with_rows(slice(start, max(start, stop)), fingerprint(self.fingerprint, "slice", start, stop))

    def take(self, rows: NDArray[np.integer[Any]]) -> EncodedLog:
        """Returns the chosen rows as copies in memory, in the order asked for."""
        return self._with_rows(rows, fingerprint(self.fingerprint, "rows", np.asarray(rows)))

    def as_table(self) -> Table:
        """Returns the rows as fits take them, as views; parts only of a log that has its folder."""
        parts = {} if self.folder is None else self.parts
        return table_of_arrays(self._columns(), self.roles, self.vocabulary, parts=parts, identity=self.fingerprint)

    def batches(self, batch_rows: int) -> Iterator[LogBatch]:
        """Yields the rows in their order, so many at a time."""
        wanted = {
            name: column
            for name, column in self._columns().items()
            if name in ("features", "weight") or name.startswith("label:")
        }
        for batch in batches_in_order(wanted, batch_rows):
            labels = {task: batch[f"label:{task}"] for task in self.labels}
            yield LogBatch(batch["features"], labels, batch.get("weight"), batch["rows"])

    def _columns(self) -> dict[str, NDArray[Any]]:
        optional = {
            "time": self.times,
            "group": self.groups,
            "weight": self.weights,
            "sampling_rate": self.sampling_rates,
        }
        return {
            "features": self.features,
            **{f"label:{task}": column for task, column in self.labels.items()},
            **{f"score:{task}": column for task, column in self.scores.items()},
            **{name: column for name, column in optional.items() if column is not None},
        }

    def _with_rows(self, rows: Any, mark: str) -> EncodedLog:
        chosen = {name: column[rows] for name, column in self._columns().items()}
        past = None if self.histories is None else self.histories.take(rows)
        return replace(EncodedLog._of_columns(chosen, self.vocabulary, self.roles, mark, {}), histories=past)

    @classmethod
    def _of_columns(
        cls,
        columns: Mapping[str, NDArray[Any]],
        vocabulary: Vocabulary,
        roles: Roles,
        mark: str,
        parts: Mapping[str, RowRange],
    ) -> EncodedLog:
        def by_task(kind: str) -> dict[str, NDArray[Any]]:
            return {name.split(":", 1)[1]: column for name, column in columns.items() if name.startswith(f"{kind}:")}

        return cls(
            features=columns["features"],
            labels=by_task("label"),
            vocabulary=vocabulary,
            roles=roles,
            fingerprint=mark,
            times=columns.get("time"),
            groups=columns.get("group"),
            weights=columns.get("weight"),
            scores=by_task("score"),
            sampling_rates=columns.get("sampling_rate"),
            parts=parts,
        )


def _check_labels(task: str, column: ArrayLike) -> Labels:
    values = np.asarray(column)
    if not np.isin(values, (MISSING_LABEL, 0, 1)).all():
        bad = values[~np.isin(values, (MISSING_LABEL, 0, 1))][0]
        raise InvalidInput.of(f"label of task {task!r}", bad, "0, 1, or -1 for not observed", "turn it into 0/1")
    return values.astype(np.int8)
