"""The reducer of torchrun and whatever else starts processes that form a group of `torch.distributed`.

The only file that knows it, and torch is imported when a group is joined.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import sys
from datetime import timedelta
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput, LostMember
from monocal.core.reduce import Reducer
from monocal.core.scores import Floats

TIMEOUT_SECONDS = 600.0
"""A member that does not answer for so long is lost; gloo itself would wait for half an hour."""

_INTERFACE = "GLOO_SOCKET_IFNAME"
_ASK_FOR_ADDRESS = 0x8915
"""Linux's SIOCGIFADDR."""


@final
class ProcessGroup:
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


def join_from_environment() -> Reducer:
    """Joins the processes that a launcher started, as it says in RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.

    Torchrun keeps one store for all its attempts on a host, with the addresses of lost processes in it, so each attempt
    has a place of its own there.
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
    from torch.distributed import PrefixStore  # type: ignore[attr-defined]
    from torch.distributed.rendezvous import rendezvous

    if not distributed.is_initialized():
        store, rank, size = next(rendezvous("env://", timeout=timedelta(seconds=TIMEOUT_SECONDS)))
        attempt = PrefixStore(f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
        _form_group(os.environ["MASTER_ADDR"], store=attempt, rank=rank, world_size=size)
    return ProcessGroup()


def open_store(host: str, size: int) -> Any:
    """Opens a place on this host where members find each other, at a port of its own (its attribute `port`).

    The port is taken before anybody hears of it, so that no other program can get it meanwhile.

    Arguments:
        host: The name or address under which the others reach this host.
        size: How many members will come.
    """
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    return TCPStore(host, 0, size, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=TIMEOUT_SECONDS))


def join(host: str, port: int, rank: int, size: int, store: Any = None) -> Reducer:
    """Joins the processes that meet at an address, without a launcher.

    Arguments:
        host: Where the store is.
        port: Its port.
        rank: Which member this process is.
        size: How many there are.
        store: The store itself, for the member that opened it.
    """
    if store is None:
        from torch.distributed import TCPStore  # type: ignore[attr-defined]

        store = TCPStore(host, port, size, is_master=False, timeout=timedelta(seconds=TIMEOUT_SECONDS))
    _form_group(host, store=store, rank=rank, world_size=size)
    return ProcessGroup()


def leave() -> None:
    """Leaves the processes that were joined; a process that goes on may join others later."""
    import torch.distributed as distributed

    if distributed.is_initialized():
        distributed.destroy_process_group()


def _form_group(host: str, **where: Any) -> None:
    """Forms the group, each member by the interface that leads to `host`, unless the user named one.

    Gloo by itself listens where the host's own name leads, which is often its loopback; on several hosts nobody finds
    it there. It asks for the interface when a group is formed.
    """
    import torch.distributed as distributed

    interface = None if _INTERFACE in os.environ else interface_towards(host)
    try:
        if interface is not None:
            os.environ[_INTERFACE] = interface
        distributed.init_process_group("gloo", timeout=timedelta(seconds=TIMEOUT_SECONDS), **where)
    except RuntimeError as error:
        way = f"{_INTERFACE} names the interface, if the one towards {host} is wrong"
        raise LostMember.of(f"{_what_happened(error)} ({way})") from error
    finally:
        if interface is not None:
            del os.environ[_INTERFACE]


def interface_towards(host: str) -> str | None:
    """Returns the interface from which a packet to `host` would go; None if that cannot be found out (not Linux).

    Nothing is sent.

    Arguments:
        host: A name or an address.

    Example:
        >>> interface_towards("127.0.0.1") in ("lo", None)
        True
    """
    if sys.platform != "linux":
        return None
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))
            own = probe.getsockname()[0]
        except OSError:
            return None
        for _, name in socket.if_nameindex():
            try:
                found = fcntl.ioctl(probe, _ASK_FOR_ADDRESS, struct.pack("256s", name.encode()[:15]))
            except OSError:  # an interface without an address
                continue
            if socket.inet_ntoa(found[20:24]) == own:
                return name
    return None


def _what_happened(error: RuntimeError) -> str:
    """Returns the first sentence of gloo's message, without the place in its source.

    Example:
        >>> _what_happened(RuntimeError("[/pair.cc:553] Connection closed by peer [10.0.0.2]:468. This is typically …"))
        'Connection closed by peer [10.0.0.2]:468'
    """
    text = re.sub(r"\[[^\]]*\.cc:\d+\] ", "", str(error))
    return text.partition(". This is typically")[0].strip().removesuffix(".")
