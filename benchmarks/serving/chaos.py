"""What the load test does to the service: workers lost in five ways, and a disk that is full for a while."""

import os
import signal
import time

import psutil

LOSSES = {
    "killed (SIGKILL, as by the system when memory runs out)": (0.15, signal.SIGKILL),
    "asked to end (SIGTERM)": (0.3, signal.SIGTERM),
    "stopped (SIGSTOP)": (0.45, signal.SIGSTOP),
    "crashed (SIGSEGV)": (0.6, signal.SIGSEGV),
    "killed while the disk is full": (0.82, signal.SIGKILL),
}
"""Ways to lose the worker with most connections, and the share of the requests after which it happens."""

DISK_FULL, DISK_FREE = 0.75, 0.9
DISK_KILOBYTES = 20_000


class Chaos:
    """What is done to the service while clients ask."""

    def __init__(self, service, disk, is_mounted):
        self.service, self.disk = service, disk
        self.losses = dict(LOSSES)
        self.windows = {}
        self.was_full = not is_mounted
        self.is_full = False

    def look(self, done):
        """Does what is due."""
        if not self.was_full and done > DISK_FULL:
            self.was_full = self.is_full = True
            fill(self.disk / "filler")
        for name, (share, number) in list(self.losses.items()):
            if done > share:
                del self.losses[name]
                self.windows[name] = self._lose(number)
        if self.is_full and done > DISK_FREE:
            (self.disk / "filler").unlink()
            self.is_full = False

    @property
    def is_over(self):
        return not self.losses and not self.is_full

    def _lose(self, number):
        service = self.service
        n_died, n_switched = len(service.of("worker died")), len(service.of("model switched"))
        start = time.monotonic()
        os.kill(_busiest(service), number)
        service.wait_for("worker died", n_died + 1)
        end = time.monotonic()
        service.wait_for("model switched", n_switched + 1)
        return start, end


def fill(path):
    """Takes every byte of a file system."""
    with path.open("wb", buffering=0) as stream:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    stream.write(b"x" * size)
            except OSError:
                continue


def _busiest(service):
    def n_connections(pid):
        return sum(
            connection.status == psutil.CONN_ESTABLISHED for connection in psutil.Process(pid).net_connections("tcp")
        )

    return max(service.living_workers(), key=n_connections)
