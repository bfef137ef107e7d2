"""A hidden folder for unfinished work: locked while in use, continued if it is the same work, else thrown away."""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, final

from monocal.core.errors import InvalidInput
from monocal.core.files import atomic_file, naming_disk_full
from monocal.core.folder import FolderFormat
from monocal.core.locks import is_taken, turn_in
from monocal.core.replace import named_place

_STATE = "state.json"


@final
class WorkFolder:
    """The place where the files of `target` come into being.

    Nothing appears at `target` before `publish`. Two processes never work on the same target at once, and work
    with other inputs or options is never continued.

    Arguments:
        target: Where the finished folder will be.
        work: Fingerprint of the inputs and options.
        kind: What the finished folder is; only a folder of this kind is replaced.
    """

    def __init__(self, target: Path, work: str, kind: FolderFormat) -> None:
        self.target = named_place(target)
        self.path = self.target.parent / f".{self.target.name}.work"
        self._work, self._kind = work, kind
        self._stack = ExitStack()

    @property
    def stage(self) -> Path:
        """A folder for files that are not part of the result."""
        return self.path / "stage"

    def __enter__(self) -> WorkFolder:
        self._kind.check_target(self.target)
        with ExitStack() as stack:
            stack.enter_context(
                naming_disk_full(
                    self.target,
                    f"free space and run the same again, which goes on from what is done; or delete {self.path.name}",
                )
            )
            self.target.parent.mkdir(parents=True, exist_ok=True)
            with turn_in(self.target.parent):
                self.path.mkdir(exist_ok=True)
                if is_taken(self.path):
                    raise InvalidInput.of(
                        "folder",
                        f"{str(self.target)!r}, which another process is writing",
                        "a folder of its own",
                        "wait for the other process, or choose another folder",
                    )
                stack.enter_context(turn_in(self.path))
            if self.state().get("work") != self._work:
                self._clear()
                self.stage.mkdir()
                self.note()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._stack.__exit__(kind, error, trace)

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
        self._kind.publish(self.path, self.target)

    def _clear(self) -> None:
        # the folder itself stays, because it carries the lock
        for path in self.path.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
