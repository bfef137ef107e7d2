"""By which of its network interfaces the other hosts of a fit reach this one."""

from __future__ import annotations

import ipaddress
import socket
import struct
import sys
from collections.abc import Iterable

_ASK_FOR_ADDRESS = 0x8915
"""Linux's SIOCGIFADDR."""


def address_towards(host: str) -> str:
    """Returns the address of this host from which a packet to `host` would go; nothing is sent.

    Arguments:
        host: A name or an address.

    Example:
        >>> address_towards("127.0.0.1")
        '127.0.0.1'
    """
    places = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)
    reasons = []
    # interfaces are asked for their IPv4 addresses; a host may have one of IPv6 without any way to it
    for family, kind, protocol, _, place in sorted(places, key=lambda found: found[0] != socket.AF_INET):
        with socket.socket(family, kind, protocol) as probe:
            try:
                probe.connect(place)
            except OSError as error:
                reasons.append(error)
            else:
                return str(probe.getsockname()[0])
    raise reasons[0]


def reachable_address(own: str, all_addresses: Iterable[str]) -> str:
    """Returns the address under which the members at `all_addresses` reach this one.

    That is its own, unless only this host itself can reach it while others have addresses of a network. So it is with
    the first host where its name stands for 127.0.1.1, as Debian's installer has it: there the way to another member
    decides.

    Arguments:
        own: This host's address on the way to the meeting place.
        all_addresses: Those of all members.

    Example:
        >>> reachable_address("10.0.0.2", ["127.0.0.1", "10.0.0.2"])
        '10.0.0.2'
        >>> reachable_address("127.0.0.1", ["127.0.0.1", "127.0.0.1"])
        '127.0.0.1'
    """
    others = [address for address in all_addresses if not ipaddress.ip_address(address).is_loopback]
    return address_towards(others[0]) if others and ipaddress.ip_address(own).is_loopback else own


def interface_of(address: str) -> str | None:
    """Returns the name of the interface that has an address; None if that cannot be found out (not Linux, not IPv4).

    Arguments:
        address: One of this host.

    Example:
        >>> interface_of("127.0.0.1") in ("lo", None)
        True
    """
    if sys.platform != "linux":
        return None
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                found = fcntl.ioctl(probe, _ASK_FOR_ADDRESS, struct.pack("256s", name.encode()[:15]))
            except OSError:  # an interface without an address
                continue
            if socket.inet_ntoa(found[20:24]) == address:
                return name
    return None
