"""The command line of monocal in a process that tells what its reductions took, and may be lost or hurried.

torchrun … watched_member.py REQUESTS fit LOG …

REQUESTS is JSON: `folder`, where rank-K.json goes; `timeout`, seconds instead of the usual 600; `lost`, the rank that
is killed once, at reduction `after`, its moment in the folder's file `lost`; `reached`, the reduction at which the
first process writes a file of that name.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from monocal.cli.main import main
from monocal.core import process_group


class Watched:
    """Counts reductions of this process and does at some of them what is requested."""

    def __init__(self, requests: dict[str, Any]) -> None:
        self.requests, self.folder = requests, Path(requests["folder"])
        self.n, self.seconds, self.bytes = 0, 0.0, 0
        self._reduced = process_group.ProcessGroup._reduced

    def reduced(self, team: Any, numbers: Any, how: Any) -> Any:
        self._happen(team.rank)
        start = time.perf_counter()
        found = self._reduced(team, numbers, how)
        self.seconds += time.perf_counter() - start
        self.n, self.bytes = self.n + 1, self.bytes + numbers.nbytes
        return found

    def _happen(self, rank: int) -> None:
        if rank == 0 and self.n == self.requests.get("reached"):
            (self.folder / "reached").write_text(str(time.time()))
        if rank == self.requests.get("lost"):
            mark = self.folder / "lost"
            if self.n == self.requests.get("after") and not mark.exists():
                mark.write_text(str(time.time()))
                os.kill(os.getpid(), signal.SIGKILL)

    def facts(self) -> dict[str, Any]:
        wall = time.perf_counter() - STARTED
        return {
            "wall": wall,
            "cpu": time.process_time(),
            "reductions": self.n,
            "in reductions": self.seconds,
            "bytes": self.bytes,
        }


STARTED = time.perf_counter()

if __name__ == "__main__":
    watched = Watched(json.loads(sys.argv[1]))
    if "timeout" in watched.requests:
        process_group.TIMEOUT_SECONDS = watched.requests["timeout"]
    process_group.ProcessGroup._reduced = lambda *given: watched.reduced(*given)  # type: ignore[method-assign]
    code = main(sys.argv[2:])
    (watched.folder / f"rank-{os.environ['RANK']}.json").write_text(json.dumps(watched.facts()))
    sys.exit(code)
