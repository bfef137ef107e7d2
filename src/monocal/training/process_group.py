"""A team whose members are the processes of a launcher: torchrun, Ray Train, TorchDistributor, a Spark barrier.

The only file that knows `torch.distributed`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput, LostMember
from monocal.core.reduce import Reducer
from monocal.core.spaces import Floats
from monocal.training.own_interface import address_towards, interface_of, reachable_address
from monocal.training.roll_call import roll_call

TIMEOUT_SECONDS = 600.0
"""A member that does not answer for so long is lost; gloo itself would wait for half an hour."""

_INTERFACE = "GLOO_SOCKET_IFNAME"


@final
class ProcessGroupTeam:
    """The members of the process group that this process belongs to."""

    def __init__(self) -> None:
        import torch.distributed as distributed

        self._group: Any = distributed
        self.rank, self.size = distributed.get_rank(), distributed.get_world_size()

    def all_sum(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._reduced(numbers, self._group.ReduceOp.SUM)

    def all_max(self, numbers: Floats) -> Floats:
        return self._reduced(numbers, self._group.ReduceOp.MAX)

    def _reduced(self, numbers: NDArray[Any], how: Any) -> NDArray[Any]:
        import torch

        tensor = torch.from_numpy(np.array(numbers))
        try:
            self._group.all_reduce(tensor, op=how)
        except RuntimeError as error:
            raise LostMember.of(_what_happened(error)) from error
        result: NDArray[Any] = tensor.numpy()
        return result


def launched_team() -> Reducer:
    """Joins the processes that a launcher started, as it says in RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.

    Processes that `torchrun --max-restarts` started again do not look for those that it ended, on one host or several.
    """
    missing = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise InvalidInput.of(
            "--engine",
            f"torchrun without {', '.join(missing)}",
            "a process that torchrun started",
            "type: torchrun --nproc-per-node 2 -m monocal fit LOG --engine torchrun --out MODEL",
        )
    import torch.distributed as distributed
    from torch.distributed.rendezvous import rendezvous

    if not distributed.is_initialized():
        store, rank, size = next(rendezvous("env://", timeout=timedelta(seconds=TIMEOUT_SECONDS)))
        _join(store, os.environ["MASTER_ADDR"], rank, size)
    return ProcessGroupTeam()


def _join(store: Any, host: str, rank: int, size: int) -> None:
    """Forms the group of those who are here now, each by the interface under which the others reach it.

    Torchrun keeps one store for all its attempts, with the addresses of lost processes in it (pytorch issue 135712), so
    the group takes a place of its own there. Gloo by itself listens where the host's own name leads, which is often its
    loopback; on several hosts nobody finds it there.
    """
    import torch.distributed as distributed
    from torch.distributed import PrefixStore  # type: ignore[attr-defined]

    own = address_towards(host)
    timeout = timedelta(seconds=TIMEOUT_SECONDS)
    try:
        name, addresses = roll_call(store, rank, size, own, TIMEOUT_SECONDS)
        with _listening_at(interface_of(reachable_address(own, addresses))):
            distributed.init_process_group(
                "gloo", timeout=timeout, store=PrefixStore(name, store), rank=rank, world_size=size
            )
    except RuntimeError as error:
        way = f"{_INTERFACE} names the interface, if the one towards {host} is wrong"
        raise LostMember.of(f"{_what_happened(error)} ({way})") from error


@contextmanager
def _listening_at(interface: str | None) -> Iterator[None]:
    """Tells gloo, which asks when a group is formed, unless the user did."""
    if interface is None or _INTERFACE in os.environ:
        yield
        return
    os.environ[_INTERFACE] = interface
    try:
        yield
    finally:
        del os.environ[_INTERFACE]


def _what_happened(error: RuntimeError) -> str:
    """Returns the first sentence of gloo's message, without the place in its source.

    Example:
        >>> _what_happened(RuntimeError("[/pair.cc:553] Connection closed by peer [10.0.0.2]:468. This is typically …"))
        'Connection closed by peer [10.0.0.2]:468'
    """
    said = re.sub(r"\[[^\]]*\.cc:\d+\] ", "", str(error))
    return said.partition(". This is typically")[0].strip().removesuffix(".")


def meeting_place(host: str, size: int) -> Any:
    """Opens a place on this host where the members of a team find each other, at a port of its own.

    The port (its attribute `port`) is taken before anybody hears of it, so that no other program can get it meanwhile.

    Arguments:
        host: The name or address under which the others reach this host.
        size: How many members will come.
    """
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    return TCPStore(host, 0, size, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=TIMEOUT_SECONDS))


def met_team(host: str, port: int, rank: int, size: int, place: Any = None) -> Reducer:
    """Joins the processes that meet at an address, without the words of a launcher.

    Arguments:
        host: Where the place is.
        port: Its port.
        rank: Which member this process is.
        size: How many there are.
        place: The place itself, for the member that opened it.
    """
    if place is None:
        from torch.distributed import TCPStore  # type: ignore[attr-defined]

        place = TCPStore(host, port, size, is_master=False, timeout=timedelta(seconds=TIMEOUT_SECONDS))
    _join(place, host, rank, size)
    return ProcessGroupTeam()


def leave_team() -> None:
    """Leaves the processes that were joined; a process that goes on may join others later."""
    import torch.distributed as distributed

    if distributed.is_initialized():
        distributed.destroy_process_group()
