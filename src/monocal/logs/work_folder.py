"""A hidden folder for unfinished work: locked while in use, continued if it is the same work, else thrown away."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import TracebackType
from typing import IO, Any, final

from monocal.core.errors import InvalidInput
from monocal.core.files import atomic_file, publish_folder

try:
    import fcntl
except ImportError:  # the lock is a convenience; the manifest alone decides what is finished
    fcntl = None  # type: ignore[assignment]

_STATE = "state.json"


@final
class WorkFolder:
    """The place where the files of `target` come into being.

    Nothing appears at `target` before `publish`. Two processes never work on the same target at once, and work
    with other inputs or options is never continued.

    Arguments:
        target: Where the finished folder will be.
        work: Fingerprint of the inputs and options.
    """

    def __init__(self, target: Path, work: str) -> None:
        self.target = target
        self.path = target.parent / f".{target.name}.work"
        self._lock_path = target.parent / f".{target.name}.lock"
        self._work = work
        self._lock: IO[str] | None = None

    @property
    def stage(self) -> Path:
        """A folder for files that are not part of the result."""
        return self.path / "stage"

    def __enter__(self) -> WorkFolder:
        self.target.parent.mkdir(parents=True, exist_ok=True)
        self._take_lock()
        if self.state().get("work") != self._work:
            shutil.rmtree(self.path, ignore_errors=True)
            self.stage.mkdir(parents=True)
            self.note()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            self._lock_path.unlink(missing_ok=True)
            self._lock.close()
            self._lock = None

    def state(self) -> dict[str, Any]:
        """Returns what was noted so far; empty if there is nothing (readable) yet."""
        try:
            noted = json.loads((self.stage / _STATE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return noted if isinstance(noted, dict) else {}

    def note(self, **changes: Any) -> None:
        """Adds to what is noted, whole or not at all."""
        entries = {**self.state(), **changes, "work": self._work}
        with atomic_file(self.stage / _STATE) as temporary:
            temporary.write_text(json.dumps(entries), encoding="utf-8")

    def publish(self) -> None:
        """Gives the finished files their place; what was in the stage is gone."""
        shutil.rmtree(self.stage)
        publish_folder(self.path, self.target)

    def _take_lock(self) -> None:
        self._lock = self._lock_path.open("w")
        if fcntl is None:
            return
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            self._lock = None
            raise InvalidInput.of(
                "folder",
                f"{str(self.target)!r}, which another process is writing",
                "a folder of its own",
                "wait for the other process, or choose another folder",
            ) from None
