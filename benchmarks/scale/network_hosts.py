"""Hosts that are network namespaces of this machine: each with its own address, loopback and name, joined by a switch,
and nothing else within reach. Files and processors are shared, so they are no machines of their own.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

INTERFACE = "net0"
NAMES = ("none", "loopback", "addresses")
"""What a host's name leads to: nothing, its own 127.0.1.1 (others: their addresses), or everybody's address."""

_START = 'hostname "$1" && mount --bind "$2" /etc/hosts && shift 2 && exec "$@"'
_END_SECONDS = 20


class Hosts:
    """Namespaces with a bridge between them, which are gone after the `with`, as are all processes in them.

    Attributes:
        addresses: One per host.
        names: One per host.
    """

    def __init__(self, n: int, names: str = "none", rate: str | None = None) -> None:
        """Makes nothing yet.

        Arguments:
            n: How many hosts.
            names: One of NAMES.
            rate: What every host can send, as `tc` writes it (1gbit); None as fast as this machine is.
        """
        if os.geteuid() != 0 or shutil.which("ip") is None:
            raise SystemExit("namespaces: got no root or no `ip`; expected both. Hint: run as root with iproute2.")
        self.addresses = [f"10.99.0.{number + 1}" for number in range(n)]
        self.names = [f"host-{number + 1}" for number in range(n)]
        self._resolved, self._rate = names, rate
        self._spaces = [f"monocal-{os.getpid()}-{number + 1}" for number in range(n)]
        self._switch = f"monocal-{os.getpid()}-switch"
        self._folder = tempfile.TemporaryDirectory()
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Hosts:
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _make(self) -> None:
        _ip("netns", "add", self._switch)
        _ip("-n", self._switch, "link", "add", "bridge0", "type", "bridge")
        _ip("-n", self._switch, "link", "set", "bridge0", "up")
        for number, (space, address) in enumerate(zip(self._spaces, self.addresses, strict=True)):
            port = f"port{number}"
            _ip("netns", "add", space)
            _ip("link", "add", INTERFACE, "netns", space, "type", "veth", "peer", "name", port, "netns", self._switch)
            _ip("-n", space, "addr", "add", f"{address}/24", "dev", INTERFACE)
            _ip("-n", space, "link", "set", "lo", "up")
            _ip("-n", space, "link", "set", INTERFACE, "up")
            _ip("-n", self._switch, "link", "set", port, "master", "bridge0", "up")
            if self._rate is not None:
                limit = ["root", "tbf", "rate", self._rate, "burst", "256kb", "latency", "50ms"]
                _run("tc", "-n", space, "qdisc", "add", "dev", INTERFACE, *limit)
            Path(self._folder.name, space).write_text(self._known_names(number))

    def _known_names(self, host: int) -> str:
        lines = ["127.0.0.1 localhost"]
        if self._resolved != "none":
            known = zip(self.addresses, self.names, strict=True)
            lines += [f"{address} {name}" for number, (address, name) in enumerate(known) if number != host]
            own = "127.0.1.1" if self._resolved == "loopback" else self.addresses[host]
            lines.append(f"{own} {self.names[host]}")
        return "\n".join(lines) + "\n"

    def start(self, host: int, words: list[Any], output: Path, **settings: str) -> subprocess.Popen[bytes]:
        """Starts a process on a host; what it says goes into a file.

        Arguments:
            host: Which one.
            words: What to run.
            output: The file.
            settings: Environment beside this process's own.
        """
        space = self._spaces[host]
        inside = ["unshare", "--uts", "sh", "-c", _START, "sh", self.names[host], str(Path(self._folder.name, space))]
        with output.open("wb") as file:
            started = subprocess.Popen(
                ["ip", "netns", "exec", space, *inside, *map(str, words)],
                env={**os.environ, **settings},
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        self._started.append(started)
        return started

    def cut(self, host: int) -> None:
        """Takes the host's cable out: nobody hears of it, packets just do not arrive."""
        _ip("-n", self._switch, "link", "set", f"port{host}", "nomaster")

    def running(self, host: int) -> list[int]:
        """Process ids of all that runs on a host."""
        return [int(word) for word in _ip("netns", "pids", self._spaces[host]).split()]

    def connections(self, host: int) -> list[str]:
        """Open connections of a host to others, each with the program that has it, as `ss` writes them."""
        lines = _ip("netns", "exec", self._spaces[host], "ss", "-Htnp", "state", "established").splitlines()
        others = [address for number, address in enumerate(self.addresses) if number != host]
        return [line for line in lines if any(f"{address}]:" in line or f"{address}:" in line for address in others)]

    def sent(self, host: int) -> int:
        """Bytes that a host has given to its cable so far."""
        (found,) = json.loads(_ip("-n", self._spaces[host], "-s", "-j", "link", "show", INTERFACE))
        return int(found["stats64"]["tx"]["bytes"])

    def clear(self) -> None:
        """Ends everything that runs on any host."""
        end = time.monotonic() + _END_SECONDS
        while time.monotonic() < end and (left := [pid for host in self._hosts() for pid in self.running(host)]):
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for started in self._started:
                started.poll()
            time.sleep(0.05)
        for started in self._started:
            started.wait(_END_SECONDS)

    def _hosts(self) -> list[int]:
        there = _ip("netns", "list").split()
        return [number for number, space in enumerate(self._spaces) if space in there]

    def __exit__(self, *_: object) -> None:
        self.clear()
        there = _ip("netns", "list").split()
        for space in [*self._spaces, self._switch]:
            if space in there:
                _ip("netns", "delete", space)
        self._folder.cleanup()


def _ip(*words: str) -> str:
    return _run("ip", *words)


def _run(*words: str) -> str:
    ended = subprocess.run(words, capture_output=True, text=True)
    if ended.returncode:
        raise SystemExit(f"{' '.join(words)}: {ended.stderr.strip()}")
    return ended.stdout
