"""The feedback log: one line per call, appended whole or not at all, from which every reader folds the same level.

A folder of files `feedback-000001.log`, …; a line is a checksum and a JSON object. The first line of a file holds the
rules, the model's fingerprint and the whole state so far, so the newest file alone is enough to start from and older
ones may be moved away. Nothing is ever removed or rewritten, except the torn last line of a writer that was killed.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

from monocal.core.disk_full import naming_disk_full
from monocal.core.errors import ArtefactError, InvalidInput
from monocal.core.files import atomic_file
from monocal.operations.online_level.level import LevelRules, OnlineLevel

_NAME = re.compile(r"feedback-(\d{6})\.log")
_LOCK = "feedback.lock"
_TAIL_BYTES = 1 << 16


@final
class FeedbackLog:
    """A folder of feedback, and the level that all of it up to now amounts to.

    Several processes may append and read; each folds the same lines in the same order. A line counts once it is whole,
    so a writer that is killed loses its own call at most.

    Arguments:
        folder: A new or empty folder, or one that holds feedback already.
        rules: How far and how fast the level may go; other rules than before begin anew.
        file_bytes: A file that is longer is followed by a new one.
    """

    def __init__(self, folder: Path, rules: LevelRules, file_bytes: int = 256 << 20) -> None:
        self.folder = folder
        self.rules = rules
        self.file_bytes = file_bytes
        self.version = ""
        self.level = OnlineLevel(LevelRules(), {})
        self._file = 0
        self._offset = 0
        if folder.is_dir():
            # something else may live there, and a log that grows is no good neighbour
            foreign = sorted(name for name in os.listdir(folder) if not _is_ours(name))
            if foreign:
                raise InvalidInput.of(
                    "level_folder",
                    f"{str(folder)!r}, which holds {foreign[0]}",
                    "a new or empty folder, or one with feedback",
                    "choose another folder",
                )

    def begin(self, version: str, field_sizes: Mapping[str, int]) -> None:
        """Follows a model: goes on where its feedback ended, or begins anew if the model or the rules are others.

        Like every writer here it changes only the files; `read` folds what they say. So writers may wait for each
        other in threads of their own, while the one thread that answers requests reads and never waits.
        """
        level = OnlineLevel(self.rules, field_sizes)
        with naming_disk_full(self.folder), self._alone():
            head = self._head()
            same = head is not None and head["version"] == version and _same_rules(head["level"], level.to_json())
            if not same:
                self._write_file(version, level)

    def append(self, version: str, rows: Mapping[str, Mapping[str, Any]]) -> bool:
        """Writes down labelled rows by task; says no if another model is followed by now.

        Arguments:
            version: The model whose answers the labels belong to.
            rows: Per task `base`, `labels` and `ids`, as for `OnlineLevel.learn`.
        """
        with naming_disk_full(self.folder), self._alone():
            head = self._head()
            if head is None or version != head["version"]:
                return False
            _append(_path(self.folder, _newest(self.folder)), _line({"rows": rows}))
        return True

    def reset(self) -> None:
        """Removes the correction: from here on the level begins at nothing again."""
        with naming_disk_full(self.folder), self._alone():
            head = self._head()
            if head is not None:
                empty = OnlineLevel(self.rules, head["level"]["field_sizes"])
                self._write_file(head["version"], empty)

    def follow_with_new_file(self) -> None:
        """Begins a new file with the level folded so far, if the newest one has become long; one process does it."""
        if self._offset > self.file_bytes:
            with naming_disk_full(self.folder), self._alone():
                self.read()
                if self._offset > self.file_bytes:
                    self._write_file(self.version, self.level)

    def read(self) -> bool:
        """Folds the lines that were written since the last time; says whether there were any."""
        has_news = False
        while True:
            path = _path(self.folder, max(self._file, 1))
            lines, n_bytes = _whole_lines(path, self._offset)
            for number, line in enumerate(lines):
                self._fold(_record(path, line), is_first=self._offset == 0 and number == 0)
            self._offset += n_bytes
            has_news = has_news or bool(lines)
            newest = _newest(self.folder)
            if newest <= max(self._file, 1):
                self._file = newest
                return has_news
            # a file begins with the whole state: what lies between need not be read
            self._file, self._offset = newest, 0

    def _fold(self, record: Mapping[str, Any], *, is_first: bool) -> None:
        if is_first:
            self.version = record["version"]
            self.level = OnlineLevel.from_json(record["level"])
        else:
            for task, rows in record["rows"].items():
                self.level.learn(task, **rows)

    def _head(self) -> Mapping[str, Any] | None:
        newest = _newest(self.folder)
        if not newest:
            return None
        path = _path(self.folder, newest)
        with path.open("rb") as stream:
            return _record(path, stream.readline().rstrip(b"\n"))

    def _write_file(self, version: str, level: OnlineLevel) -> None:
        with atomic_file(_path(self.folder, _newest(self.folder) + 1)) as temporary:
            temporary.write_bytes(_line({"version": version, "level": level.to_json()}))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / _LOCK).open("ab") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield


def files_of(folder: Path) -> list[Path]:
    """Returns the files of a feedback folder, oldest first."""
    return sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name)) if folder.is_dir() else []


def records_of(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yields the whole lines of one file."""
    for line in _whole_lines(path, 0)[0]:
        yield _record(path, line)


def _same_rules(found: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    plain = [json.loads(json.dumps([facts["rules"], facts["field_sizes"]])) for facts in (found, other)]
    return bool(plain[0] == plain[1])


def _append(path: Path, content: bytes) -> None:
    """Writes after the last whole line; what cannot be written whole is taken back."""
    end = _end_of_whole_lines(path)
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.ftruncate(descriptor, end)  # the torn line of a writer that was killed
        try:
            if os.pwrite(descriptor, content, end) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, end)
            raise
    finally:
        os.close(descriptor)


def _end_of_whole_lines(path: Path) -> int:
    size = path.stat().st_size
    with path.open("rb") as stream:
        end = size
        while end > 0:
            start = max(0, end - _TAIL_BYTES)
            stream.seek(start)
            at = stream.read(end - start).rfind(b"\n")
            if at >= 0:
                return start + at + 1
            end = start
    return 0


def _is_ours(name: str) -> bool:
    return bool(_NAME.fullmatch(name)) or name == _LOCK or name.startswith(".")


def _path(folder: Path, number: int) -> Path:
    return folder / f"feedback-{number:06d}.log"


def _newest(folder: Path) -> int:
    files = files_of(folder)
    return int(files[-1].name[9:15]) if files else 0


def _line(record: Mapping[str, Any]) -> bytes:
    text = json.dumps(record, separators=(",", ":"), allow_nan=False).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _whole_lines(path: Path, offset: int) -> tuple[list[bytes], int]:
    try:
        with path.open("rb") as stream:
            stream.seek(offset)
            content = stream.read()
    except FileNotFoundError:
        return [], 0
    whole = content[: content.rfind(b"\n") + 1]
    return whole.splitlines(), len(whole)


def _record(path: Path, line: bytes) -> Mapping[str, Any]:
    checksum, _, text = line.partition(b" ")
    try:
        if int(checksum, 16) == zlib.crc32(text):
            record: Mapping[str, Any] = json.loads(text)
            return record
    except ValueError:
        pass
    raise ArtefactError(
        f"{path}: a line does not match its checksum ({line[:40]!r}…); nothing after it was learned. "
        "Way out: restore the file from a copy, or move the folder away to begin anew"
    )
