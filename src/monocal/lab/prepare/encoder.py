"""From a raw log to an encoded one: read, count, encode, sort; the folder appears when all of it is there."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final, get_args

from monocal.core.errors import ArtefactError, InvalidInput, check_known
from monocal.core.folder import fingerprint
from monocal.lab.prepare.encoded_log import EncodedLog
from monocal.lab.prepare.reading import LogReader, TableReader, spool_source
from monocal.lab.prepare.source import SourceStream, TableSource, warn_about_skipped
from monocal.lab.prepare.splits import DEFAULT_SHARES, Moment, check_shares
from monocal.lab.prepare.steps import (
    FitOn,
    array_files,
    count_fields,
    count_groups,
    encode_rows,
    find_parts,
    history_files,
    sort_rows,
    write_manifest,
)
from monocal.tables.checks import doubts_about_fields, warn_about
from monocal.tables.csv import OnError
from monocal.tables.encoded import ENCODED_LOG, VOCABULARY, LogManifest
from monocal.tables.files import is_parquet
from monocal.tables.roles import Roles
from monocal.tables.source import TableLike, TableStream, open_table
from monocal.tables.vocabulary_file import save_vocabulary

ENCODER_VERSION = 3
"""Raised whenever the same input would be encoded differently, so that old results are not taken for new ones."""


def encode_log(
    log: TableLike | SourceStream,
    roles: Roles | None = None,
    folder: str | Path | None = None,
    *,
    min_count: int | Mapping[str, int] = 2,
    max_size: int | Mapping[str, int] | None = None,
    hashed_fields: Mapping[str, int] | None = None,
    fit_on: FitOn = "train",
    shares: Mapping[str, float] = DEFAULT_SHARES,
    cuts: Mapping[str, Moment] | None = None,
    history: str | None = None,
    on_error: OnError | None = None,
    show_progress: bool | None = None,
) -> EncodedLog:
    """Turns a log of any size into ids on disk, in memory that does not grow with its rows.

    The log is read in batches twice: once to count values, once to turn them into ids. A source that is slow to
    read (text, joined files) is read once and kept as clean rows until both passes are done. Rows that are not in
    time order are sorted by time, stably.

    The folder appears when everything is finished, never before. A finished folder made from the same inputs and
    options is returned at once.

    Arguments:
        log: A source's stream, or any table (Parquet, CSV, or in memory).
        roles: Which column plays which part; None takes the source's.
        folder: Where the encoded log will be. An encoded log that is there is replaced; anything else is refused.
        min_count: Values with fewer rows share id 0 with the unseen ones, which thereby learn something: one
            number, or one per field.
        max_size: At most so many values, the most frequent ones: one number, or one per field.
        hashed_fields: Field to number of buckets, for fields with too many values to list.
        fit_on: "train" counts values in the first part only, as a model in use would have to; "all" counts in
            the whole log.
        shares: Part name to its share, in time order; see `split_by_share`.
        cuts: Part name to the moment it begins, instead of shares; a row at that moment belongs to it. A moment is an
            integer in the unit of the time column, or a date, datetime or ISO text (UTC).
        history: The field or group column of users whose past each row shall know, for rankers that read it; see
            `Histories`.
        on_error: "raise" refuses the first malformed row, "skip" counts and leaves out malformed rows; None takes
            the stream's setting ("raise" for tables).
        show_progress: Whether to show bars; None asks whether standard error is a terminal.

    Example:
        >>> import tempfile
        >>> table = {"click": [0, 1, 0, 0, 1], "site": ["a", "b", "a", "a", "c"], "hour": [1, 2, 3, 4, 5]}
        >>> roles = Roles(label="click", fields=["site"], time="hour")
        >>> with tempfile.TemporaryDirectory() as place:
        ...     log = encode_log(table, roles, f"{place}/log", min_count=1)
        ...     log.features[:, 0].tolist(), log.parts["train"], log.vocabulary["site"].values.to_pylist()
        ([1, 2, 1, 1, 0], RowRange(start=0, stop=3), ['a', 'b'])
    """
    if folder is None:
        raise InvalidInput.of("folder", None, "where the encoded log will be", 'pass folder="…"')
    target = ENCODED_LOG.check_target(folder)
    given = EncodingInput.of(log, roles, on_error)
    if fit_on not in get_args(FitOn):
        raise InvalidInput.of("fit_on", repr(fit_on), '"train" or "all"', "say which rows the vocabulary may see")
    options: dict[str, Any] = {
        "min_count": min_count if isinstance(min_count, int) else dict(min_count),
        "max_size": max_size if max_size is None or isinstance(max_size, int) else dict(max_size),
        "hashed_fields": dict(hashed_fields or {}),
        "fit_on": fit_on,
        "parts": {name: str(at) for name, at in (check_shares(shares) if cuts is None else cuts).items()},
        "parts_by": "shares" if cuts is None else "moments",
        "on_error": given.stream.on_error,
    }
    if history is not None:
        known = [*given.roles.fields, *([given.roles.group] if given.roles.group else [])]
        check_known("history", history, known)
        options["history"] = history
    for name in hashed_fields or ():
        check_known("hashed field", name, given.roles.fields)
    mark = fingerprint(ENCODER_VERSION, given.identity, given.stream.settings, given.roles.to_dict(), options)
    done = _finished(target, mark)
    if done is not None:
        return done
    with ENCODED_LOG.writing(target) as work:
        stage = work / "stage"
        stage.mkdir()
        reader, skipped = given.reader(stage, show_progress)
        if reader.n_rows == 0:
            raise InvalidInput.of("log", "no usable row", "at least one row", "check the file and the schema")
        parts = find_parts(reader, given.roles, stage, shares, cuts)
        limits = {"min_count": min_count, "max_size": max_size, "hashed_fields": hashed_fields}
        vocabulary = count_fields(reader, parts, given.roles, fit_on, limits, show_progress)
        save_vocabulary(vocabulary, work / VOCABULARY)
        groups = count_groups(reader, work, show_progress) if given.roles.group is not None else None
        arrays = array_files(given.roles, reader.n_rows, work)
        encode_rows(reader, vocabulary, groups, arrays, show_progress)
        if not parts.is_sorted:
            sort_rows(arrays, parts, show_progress)
        if history is not None:
            arrays += history_files(history, given.roles, arrays)
        made_from = {"work": mark, "source": given.stream.name, "files": [path.name for path in given.stream.paths]}
        notes = {"options": options, "skipped": skipped, "encoder_version": ENCODER_VERSION}
        shutil.rmtree(stage)
        write_manifest(arrays, parts.ranges, given.roles, made_from | notes, work)
    encoded = EncodedLog.open(target)
    warn_about_skipped(skipped, encoded.n_rows)
    warn_about(doubts_about_fields(encoded.as_table()))
    return encoded


def _finished(target: Path, mark: str) -> EncodedLog | None:
    """Returns the log that is already there if it is this one."""
    try:
        if LogManifest.read(target).made_from.get("work") != mark:
            return None
        return EncodedLog.open(target)
    except ArtefactError:
        return None


@final
@dataclass(frozen=True)
class EncodingInput:
    """A log about to be encoded.

    Attributes:
        stream: Its rows.
        identity: Plain values that change when the files change; a table in memory is among the stream's settings.
        direct: The table, if reading it twice is cheaper than keeping a copy of its rows.
    """

    stream: SourceStream
    identity: Any
    direct: TableStream | None

    @classmethod
    def of(cls, log: TableLike | SourceStream, roles: Roles | None, on_error: OnError | None) -> EncodingInput:
        """Accepts a source's stream, or a table together with its roles."""
        if isinstance(log, SourceStream):
            if roles is not None and roles != log.schema:
                raise InvalidInput.of("roles", "others than the source's", "None", "leave the roles to the source")
            return cls(replace(log, on_error=on_error or log.on_error), identify_files(log.paths), None)
        if roles is None:
            raise InvalidInput.of("roles", None, "the parts of the columns", "pass a Roles with the table")
        if roles.numeric:
            raise InvalidInput.of(
                "numeric",
                list(roles.numeric),
                "no numeric fields in a prepared log, which holds categories",
                "fit the table itself with numeric=, or leave them out",
            )
        stream = TableSource(roles).open_table(log, on_error=on_error or "raise")
        is_text = not all(is_parquet(path.name) for path in stream.paths)
        table = None if is_text or stream.on_error != "raise" else open_table(log)
        # the rows of a dataset of text are not counted before they are read
        direct = None if table is None or table.n_rows is None else table
        return cls(stream, identify_files(stream.paths), direct)

    @property
    def roles(self) -> Roles:
        return self.stream.schema

    def reader(self, stage: Path, show_progress: bool | None) -> tuple[LogReader, dict[str, Any]]:
        """Returns a reader of the clean rows and a summary of the malformed ones."""
        if self.direct is not None:
            return TableReader(self.direct, self.roles), {"n_rows": 0, "examples": []}
        return spool_source(self.stream, stage / "rows.arrow", show_progress)


_ENDS_BYTES = 1 << 16


def identify_files(paths: tuple[Path, ...]) -> list[list[Any]]:
    """Returns name, size, time of change and a hash of both ends of every file: enough to notice another file."""
    return [[path.name, path.stat().st_size, path.stat().st_mtime_ns, _hash_of_ends(path)] for path in paths]


def _hash_of_ends(path: Path) -> str:
    with path.open("rb") as stream:
        head = stream.read(_ENDS_BYTES)
        stream.seek(max(path.stat().st_size - _ENDS_BYTES, 0))
        return fingerprint(head, stream.read(_ENDS_BYTES))
