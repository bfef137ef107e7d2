"""How processes of a team find each other."""

import socket
from datetime import timedelta

import numpy as np
import pytest

from monocal.training import process_group

pytest.importorskip("torch")


def test_the_port_of_a_meeting_place_is_taken_before_anybody_hears_of_it():
    place = process_group.meeting_place("127.0.0.1", 1)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", place.port))
    team = process_group.met_team("127.0.0.1", place.port, 0, 1, place)
    try:
        assert (team.rank, team.size) == (0, 1)
        assert team.count(np.array([3, 4])).tolist() == [3, 4]
        assert team.most(np.array([0.5])).tolist() == [0.5]
    finally:
        process_group.leave_team()


def test_whoever_does_not_answer_is_lost_after_minutes_and_not_half_an_hour(monkeypatch):
    """Every way to join says so to the group."""
    import torch.distributed as distributed

    told = []
    monkeypatch.setattr(distributed, "init_process_group", lambda backend, **given: told.append(given["timeout"]))
    monkeypatch.setattr(process_group, "ProcessGroupTeam", lambda: None)
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
        monkeypatch.setenv(name, value)
    process_group.launched_team()
    process_group.met_team("127.0.0.1", 0, 0, 1, place=object())
    assert told == [timedelta(minutes=10)] * 2
