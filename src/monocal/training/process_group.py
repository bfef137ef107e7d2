"""A team whose members are the processes of a launcher: torchrun, Ray Train, TorchDistributor, a Spark barrier.

The only file that knows `torch.distributed`.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.core.spaces import Floats
from monocal.core.team import Team

TIMEOUT_SECONDS = 600.0
"""A member that does not answer for so long is lost; gloo itself would wait for half an hour."""


@final
class ProcessGroupTeam:
    """The members of the process group that this process belongs to."""

    def __init__(self) -> None:
        import torch.distributed as distributed

        self._group: Any = distributed
        self.rank, self.size = distributed.get_rank(), distributed.get_world_size()

    def count(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._reduced(numbers, self._group.ReduceOp.SUM)

    def most(self, numbers: Floats) -> Floats:
        return self._reduced(numbers, self._group.ReduceOp.MAX)

    def _reduced(self, numbers: NDArray[Any], how: Any) -> NDArray[Any]:
        import torch

        tensor = torch.from_numpy(np.array(numbers))
        self._group.all_reduce(tensor, op=how)
        result: NDArray[Any] = tensor.numpy()
        return result


def launched_team() -> Team:
    """Joins the processes that a launcher started, as it says in RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.

    Processes that `torchrun --max-restarts` started again on one machine do not look for those that it ended.
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

    if not distributed.is_initialized():
        distributed.init_process_group("gloo", timeout=timedelta(seconds=TIMEOUT_SECONDS), **_meeting_place())
    return ProcessGroupTeam()


def _meeting_place() -> dict[str, Any]:
    """Returns where the processes find each other's addresses, if the launcher's own place will not do.

    Torchrun keeps one store for all attempts, with the addresses of lost processes in it (pytorch issue 135712). Its
    number of the attempt is that of one host: on several of them they may differ, so there the launcher's place stays.
    """
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    if attempt == "0" or os.environ.get("GROUP_WORLD_SIZE") != "1":
        return {}
    from torch.distributed import PrefixStore  # type: ignore[attr-defined]
    from torch.distributed.rendezvous import rendezvous

    store, rank, size = next(rendezvous("env://", timeout=timedelta(seconds=TIMEOUT_SECONDS)))
    return {"store": PrefixStore(f"attempt {attempt}", store), "rank": rank, "world_size": size}


def meeting_place(host: str, size: int) -> Any:
    """Opens a place on this host where the members of a team find each other, at a port of its own.

    The port (its attribute `port`) is taken before anybody hears of it, so that no other program can get it meanwhile.

    Arguments:
        host: The name or address under which the others reach this host.
        size: How many members will come.
    """
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    return TCPStore(host, 0, size, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=TIMEOUT_SECONDS))


def met_team(host: str, port: int, rank: int, size: int, place: Any = None) -> Team:
    """Joins the processes that meet at an address, without the words of a launcher.

    Arguments:
        host: Where the place is.
        port: Its port.
        rank: Which member this process is.
        size: How many there are.
        place: The place itself, for the member that opened it.
    """
    import torch.distributed as distributed

    timeout = timedelta(seconds=TIMEOUT_SECONDS)
    if place is None:
        from torch.distributed import TCPStore  # type: ignore[attr-defined]

        place = TCPStore(host, port, size, is_master=False, timeout=timeout)
    distributed.init_process_group("gloo", timeout=timeout, store=place, rank=rank, world_size=size)
    return ProcessGroupTeam()


def leave_team() -> None:
    """Leaves the processes that were joined; a process that goes on may join others later."""
    import torch.distributed as distributed

    if distributed.is_initialized():
        distributed.destroy_process_group()
