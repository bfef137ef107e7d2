"""By which interface others reach this host."""

import socket
import sys

import pytest

from monocal.training import own_interface
from monocal.training.own_interface import address_towards, interface_of, reachable_address

TOWARDS = {"10.0.0.2": "10.0.0.1"}


def test_a_first_host_whose_name_leads_to_its_loopback_is_reached_by_its_way_to_another(monkeypatch):
    monkeypatch.setattr(own_interface, "address_towards", TOWARDS.__getitem__)
    assert reachable_address("127.0.1.1", ["127.0.1.1", "127.0.1.1", "10.0.0.2"]) == "10.0.0.1"
    assert reachable_address("10.0.0.2", ["127.0.1.1", "127.0.1.1", "10.0.0.2"]) == "10.0.0.2"


def test_an_address_without_a_way_is_passed_over(monkeypatch):
    nowhere = (socket.AF_INET, socket.SOCK_DGRAM, 0, "", ("255.255.255.255", 9))  # refused without a wish to shout
    there = (socket.AF_INET, socket.SOCK_DGRAM, 0, "", ("127.0.0.1", 9))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [nowhere, there])
    assert address_towards("first-host") == "127.0.0.1"
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [nowhere])
    with pytest.raises(OSError, match="ermission"):
        address_towards("first-host")


@pytest.mark.skipif(sys.platform != "linux", reason="interfaces are found on Linux only")
def test_the_interface_of_an_address_is_found():
    assert interface_of("127.0.0.1") == socket.if_indextoname(1)
    assert interface_of("192.0.2.77") is None
