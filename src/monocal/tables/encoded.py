"""Ids of a large table on disk: one .npy file per column, the vocabulary, and a checked manifest that is written last.

Preparing a log for rankers writes such folders, and so does `save_encoded`. A ranker's scores of a log lie in a folder
of their own that knows where the log is. Both are opened as a `Table` whose columns are memory maps; as a table like
any other they have their values again, see `LogValues`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monocal.core.errors import ArtefactError, InvalidInput
from monocal.core.files import local_path
from monocal.core.folder import FolderFormat, fingerprint
from monocal.core.scores import Floats
from monocal.tables.roles import Roles
from monocal.tables.table import Table
from monocal.tables.vocabulary import NumericField, Vocabulary
from monocal.tables.vocabulary_file import load_vocabulary, save_vocabulary

VOCABULARY = "vocabulary.arrow"
GROUP_VALUES = "group_values.arrow"
EMBEDDINGS = "embeddings.npy"

ENCODED_LOG = FolderFormat(
    "monocal encoded log",
    3,
    "manifest.json",
    called="an encoded log",
    remedy="run encode_log again",
    anew="run encode_log again",
)
"""How an encoded log lies on disk."""

SCORED_LOG = FolderFormat(
    "monocal scored log",
    3,
    "scored_log.json",
    called="a scored log",
    remedy="run rank_log again",
    anew="run rank_log again",
    known=("ranker/ranker.json", "ranker/state.safetensors"),
)
"""How a ranker's scores of an encoded log lie on disk."""


@final
@dataclass(frozen=True)
class LogManifest:
    """What is in the folder of an encoded log.

    Attributes:
        n_rows: Rows of every array.
        schema: The roles as plain values.
        parts: Named consecutive parts, as `[start, stop]`.
        arrays: Array name ("features", "label:click", "time", …) to its file name.
        made_from: What the log was made from and how, for people and for recognising repeated work.
        files: File name to its size in bytes and its fingerprint; known once the folder is sealed.
    """

    n_rows: int
    schema: Mapping[str, Any]
    parts: Mapping[str, tuple[int, int]]
    arrays: Mapping[str, str]
    made_from: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """Changes whenever the contents, the meaning or the parts change; not with where the log came from."""
        contents = {name: self.files[file]["fingerprint"] for name, file in self.arrays.items()}
        values = self.files[VOCABULARY]["fingerprint"]
        return fingerprint(self.n_rows, self.schema, {k: list(v) for k, v in self.parts.items()}, contents, values)

    def seal(self, folder: Path) -> None:
        """Writes the manifest into a folder that holds all files of a log, which makes it one."""
        names = [name for name in (*self.arrays.values(), VOCABULARY, GROUP_VALUES) if (folder / name).is_file()]
        files = ENCODED_LOG.describe_files(folder, names)
        entries = {name: entry for name, entry in vars(self).items() if name != "files"}
        ENCODED_LOG.seal(folder, {"identity": replace(self, files=files).fingerprint, **entries}, files)

    @classmethod
    def read(cls, folder: Path) -> LogManifest:
        """Reads the manifest; anything but a whole manifest of a known version is refused."""
        entries = ENCODED_LOG.read(folder)
        try:
            parts = {name: (int(a), int(b)) for name, (a, b) in entries["parts"].items()}
            manifest = cls(parts=parts, **{name: entries[name] for name in cls.__dataclass_fields__ if name != "parts"})
            if manifest.fingerprint != entries["identity"]:
                raise ArtefactError(
                    f"{folder}: the manifest does not agree with its own fingerprint; run encode_log again"
                )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ENCODED_LOG.damaged(folder, error) from error
        return manifest

    def map_arrays(self, folder: Path, *, contents: bool = False) -> dict[str, NDArray[Any]]:
        """Opens all arrays as memory maps; every file must have its size, and its fingerprint if `contents`."""
        ENCODED_LOG.verify(folder, {"files": self.files}, contents=contents)
        columns = {name: map_array(folder / file) for name, file in self.arrays.items()}
        for name, column in columns.items():
            if len(column) != self.n_rows:
                raise ArtefactError(f"{folder}: {name} has {len(column)} rows instead of {self.n_rows}")
        return columns


def map_array(path: Path) -> NDArray[Any]:
    """Opens a .npy file as a read-only memory map (an empty array when there are no rows)."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]
    except ValueError as error:
        header = np.load(path, allow_pickle=False) if path.stat().st_size < 1024 else None
        if header is not None and header.size == 0:
            return header  # type: ignore[no-any-return]
        raise ArtefactError(f"{path} is not an array file ({error})") from error


def array_file(index: int, name: str) -> str:
    """The file of an array; task names may hold any character, so they are kept in the manifest alone."""
    return f"{index:02d}_{name.split(':', 1)[0]}.npy"


def is_encoded(place: object) -> bool:
    """Says whether something is the path to a folder of ids, or of a ranker's scores of one.

    Example:
        >>> is_encoded("log.parquet")
        False
    """
    return isinstance(place, str | Path) and ((Path(place) / SCORED_LOG.manifest).is_file() or ENCODED_LOG.is_at(place))


def open_encoded(folder: str | Path) -> Table:
    """Opens a folder of ids, or of a ranker's scores of one: the scores are logits in columns `<task>_logit` then.

    Every file must have the size that the manifest says. Anything else is refused with `ArtefactError`.
    """
    folder = Path(folder)
    if (folder / SCORED_LOG.manifest).is_file():
        return _open_scored(folder)
    manifest = LogManifest.read(folder)
    arrays = manifest.map_arrays(folder)
    roles, vocabulary = Roles.from_dict(manifest.schema), load_vocabulary(folder / VOCABULARY)
    return table_of_arrays(arrays, roles, vocabulary, parts=manifest.parts, identity=manifest.fingerprint)


def table_of_arrays(arrays: Mapping[str, NDArray[Any]], roles: Roles, vocabulary: Vocabulary, **others: Any) -> Table:
    """Returns rows whose columns are these arrays, by the names that a manifest has for them."""

    def by_task(kind: str) -> dict[str, NDArray[Any]]:
        return {name.split(":", 1)[1]: column for name, column in arrays.items() if name.startswith(f"{kind}:")}

    rate = roles.sampling_rate
    return Table(
        roles,
        by_task("label"),
        by_task("score"),
        groups=arrays.get("group"),
        weights=arrays.get("weight"),
        times=arrays.get("time"),
        rates=float(rate) if isinstance(rate, int | float) else arrays.get("sampling_rate"),
        features=arrays["features"],
        vocabulary=vocabulary,
        **others,
    )


def save_encoded(rows: Table, folder: str | Path) -> Table:
    """Writes encoded rows as a folder, whole or not at all, and returns them opened from it.

    Example:
        >>> import tempfile
        >>> table = {"y": [0, 1], "p": [0.1, 0.2], "site": ["a", "b"]}
        >>> rows = Table.read(table, Roles(score="p", label="y", fields=["site"]))
        >>> with tempfile.TemporaryDirectory() as place:
        ...     save_encoded(rows.encoded(), f"{place}/log").features.tolist()
        [[1], [2]]
    """
    target = local_path(folder, "output folder")
    features, vocabulary = rows.encoding
    columns: dict[str, Any] = {"features": features}
    columns |= {f"label:{task}": column for task, column in rows.labels.items()}
    columns |= {f"score:{task}": column for task, column in rows.scores.items()}
    columns |= {"time": rows.times, "group": rows.groups, "weight": rows.weights}
    columns |= {"sampling_rate": rows.rates if isinstance(rows.rates, np.ndarray) else None}
    arrays = {name: column for name, column in columns.items() if column is not None}
    write_arrays(target, arrays, vocabulary, rows.roles, rows.parts)
    return open_encoded(target)


def write_arrays(
    target: Path,
    arrays: Mapping[str, NDArray[Any]],
    vocabulary: Vocabulary,
    roles: Roles,
    parts: Mapping[str, tuple[int, int]],
) -> None:
    """Writes the folder of an encoded log."""
    names = {name: array_file(index, name) for index, name in enumerate(arrays)}
    with ENCODED_LOG.writing(target) as temporary:
        for name, column in arrays.items():
            np.save(temporary / names[name], column, allow_pickle=False)
        save_vocabulary(vocabulary, temporary / VOCABULARY)
        spans = {name: (part[0], part[1]) for name, part in parts.items()}
        LogManifest(len(arrays["features"]), roles.to_dict(), spans, names).seal(temporary)


def read_scored_manifest(folder: Path) -> dict[str, Any]:
    """Reads a scored log's manifest; anything but a whole one of a known version is refused."""
    manifest = SCORED_LOG.read(folder)
    for name in ("identity", "log_fingerprint", "log_folder", "field_sizes", "logits", "notes"):
        if name not in manifest:
            raise SCORED_LOG.damaged(folder, KeyError(name))
    return manifest


def log_of_scores(folder: Path, manifest: Mapping[str, Any]) -> Path:
    """Returns where the log is whose scores a folder holds."""
    if manifest["log_folder"] is None:
        raise InvalidInput.of(
            "log", None, "the encoded log these scores belong to", "pass it: ScoredLog.open(folder, log)"
        )
    return Path(folder / manifest["log_folder"])


def map_scores(
    folder: Path, manifest: Mapping[str, Any], log: str, n_rows: int, *, contents: bool = False
) -> tuple[dict[str, Floats], tuple[NDArray[np.float32], ...] | None]:
    """Returns task to logits, and the ranker's table per field if it has any.

    Arguments:
        folder: The folder of a scored log.
        manifest: Its manifest.
        log: The fingerprint of the log; scores of another are refused.
        n_rows: Its number of rows.
        contents: Whether fingerprints of files are compared, too.
    """
    if log != manifest["log_fingerprint"]:
        raise ArtefactError(f"{folder} belongs to another log than the one given; run rank_log again")
    SCORED_LOG.verify(folder, dict(manifest), contents=contents)
    logits = {task: map_array(folder / file) for task, file in manifest["logits"].items()}
    for task, column in logits.items():
        if len(column) != n_rows:
            raise ArtefactError(f"{folder}: {task} has {len(column)} logits for {n_rows} rows")
    if EMBEDDINGS not in manifest["files"]:
        return logits, None
    return logits, tuple(np.split(map_array(folder / EMBEDDINGS), np.cumsum(manifest["field_sizes"])[:-1]))


def _open_scored(folder: Path) -> Table:
    manifest = read_scored_manifest(folder)
    log = open_encoded(log_of_scores(folder, manifest))
    logits, embeddings = map_scores(folder, manifest, log.identity, log.n_rows)
    roles = log.roles.with_logits({task: f"{task}_logit" for task in logits})
    return replace(log, roles=roles, scores=logits, embeddings=embeddings, identity=manifest["identity"])


@final
class LogValues:
    """The folder of a prepared log as a table of values, for whatever reads tables; made batch by batch.

    An id that stands for values that were not listed is a text that no value has, so that a model of the log finds its
    own unseen value again. Moments and groups are the whole numbers that the log holds.

    Arguments:
        rows: What `open_encoded` returned.
    """

    def __init__(self, rows: Table) -> None:
        self._rows = rows
        columns: dict[str, NDArray[Any]] = {column: rows.labels[task] for task, column in rows.roles.labels.items()}
        columns |= {column: rows.scores[task] for task, column in rows.roles.scores.items()}
        named: dict[str | None, Any] = {rows.roles.time: rows.times, rows.roles.group: rows.groups}
        named |= {rows.roles.weight: rows.weights, rows.roles.rate_column: rows.rates}
        columns |= {name: column for name, column in named.items() if name and isinstance(column, np.ndarray)}
        self._columns = columns
        self._features, self._vocabulary = rows.encoding
        kinds = {name: pa.dictionary(pa.int32(), pa.string()) for name in self._vocabulary.names}
        kinds |= dict.fromkeys(self._vocabulary.numeric_names, pa.float64())
        kinds |= {name: pa.from_numpy_dtype(column.dtype) for name, column in columns.items()}
        self.schema = pa.schema(kinds)

    def to_batches(self, columns: Sequence[str], batch_size: int) -> Iterator[pa.RecordBatch]:
        """Yields batches of these columns."""
        values = {name: self._values(name) for name in columns if name in self._rows.field_names}
        for start in range(0, self._rows.n_rows, batch_size):
            rows = slice(start, start + batch_size)
            parts = [self._part(name, rows, values.get(name)) for name in columns]
            yield pa.RecordBatch.from_arrays(parts, names=list(columns))

    def _part(self, name: str, rows: slice, values: pa.Array | NumericField | None) -> pa.Array:
        if values is None:
            column = np.asarray(self._columns[name][rows])
            return pa.array(column, mask=column < 0 if name in self._rows.roles.labels.values() else None)
        ids = np.ascontiguousarray(self._features[rows, self._rows.field_names.index(name)])
        if isinstance(values, NumericField):
            return pa.array(values.numbers_of(ids), from_pandas=True)
        return pa.DictionaryArray.from_arrays(pa.array(ids), values)

    def _values(self, name: str) -> pa.Array | NumericField:
        field = self._vocabulary[name]
        if isinstance(field, NumericField):
            return field
        if field.n_buckets is not None:
            raise InvalidInput.of(
                f"column {name!r}",
                "hashed values, whose texts a prepared log does not keep",
                "a field with listed values",
                "hand over the table that the log was prepared from",
            )
        unseen = "(not listed)"
        while field.encode(pa.array([unseen]))[0]:
            unseen += "'"
        return pa.concat_arrays([pa.array([unseen]), field.values])
