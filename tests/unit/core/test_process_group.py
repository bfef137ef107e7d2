"""How processes of a team find each other."""

import os
import socket
from datetime import timedelta

import numpy as np
import pytest

from monocal.core import process_group
from monocal.core.errors import LostMember
from monocal.core.process_group import interface_towards

pytestmark = pytest.mark.extras
INTERFACE = "GLOO_SOCKET_IFNAME"


def test_the_port_of_a_meeting_place_is_taken_before_anybody_hears_of_it():
    place = process_group.open_store("127.0.0.1", 1)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", place.port))
    team = process_group.join("127.0.0.1", place.port, 0, 1, place)
    try:
        assert (team.rank, team.size) == (0, 1)
        assert team.all_sum(np.array([3, 4])).tolist() == [3, 4]
        assert team.all_max(np.array([0.5])).tolist() == [0.5]
    finally:
        process_group.leave()


@pytest.fixture
def formed(monkeypatch):
    """How long every group that is formed waits for an answer, and the interface that gloo finds in the environment."""
    import torch.distributed as distributed

    found = []
    monkeypatch.delenv(INTERFACE, raising=False)
    note = lambda backend, **given: found.append((given["timeout"], os.environ.get(INTERFACE)))  # noqa: E731
    monkeypatch.setattr(distributed, "init_process_group", note)
    monkeypatch.setattr(process_group, "ProcessGroup", lambda: None)
    return found


def meet():
    process_group.join("127.0.0.1", 0, 0, 1, store=process_group.open_store("127.0.0.1", 1))


def test_every_group_waits_minutes_and_listens_at_the_interface_towards_the_meeting_place(formed, monkeypatch):
    """Not for half an hour, and at the loopback only if it leads there; nothing stays set."""
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
        monkeypatch.setenv(name, value)
    process_group.join_from_environment()
    meet()
    assert formed == [(timedelta(minutes=10), interface_towards("127.0.0.1"))] * 2
    assert INTERFACE not in os.environ


def test_an_interface_that_the_user_named_stays(formed, monkeypatch):
    monkeypatch.setenv(INTERFACE, "eth7")
    meet()
    assert formed[0][1] == os.environ[INTERFACE] == "eth7"


def test_a_lost_member_is_reported_with_what_to_do(monkeypatch):
    import torch.distributed as distributed

    place = process_group.open_store("127.0.0.1", 1)
    team = process_group.join("127.0.0.1", place.port, 0, 1, place)
    try:
        text = (
            "[/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.2]:468. This is typically caused by …"
        )

        def closed(*_, **__):
            raise RuntimeError(text)

        monkeypatch.setattr(distributed, "all_reduce", closed)
        with pytest.raises(LostMember, match=r"lost: Connection closed by peer \[10.0.0.2\]:468. Nothing is saved"):
            team.all_sum(np.array([1]))
    finally:
        process_group.leave()


def test_members_that_do_not_reach_each_other_hear_which_setting_decides(monkeypatch):
    import torch.distributed as distributed

    def refused(*_, **__):
        raise RuntimeError("Gloo connectFullMesh failed with [/gloo/pair.cc:152] timed out connecting")

    monkeypatch.setattr(distributed, "init_process_group", refused)
    with pytest.raises(LostMember, match="failed with timed out connecting .GLOO_SOCKET_IFNAME names the interface"):
        meet()
