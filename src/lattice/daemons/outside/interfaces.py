"""The addresses of this machine, as the kernel tells them over netlink."""

import socket
import struct
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address

from lattice.config.networks import InterfaceAddress

# linux/rtnetlink.h, linux/netlink.h
_RTM_NEWADDR, _RTM_GETADDR, _NLMSG_ERROR, _NLMSG_DONE = 20, 22, 2, 3
_NLM_F_REQUEST, _NLM_F_DUMP = 0x1, 0x300
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_HEAD = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_ABOUT = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, interface
_ATTRIBUTE = struct.Struct("=HH")
WITHIN_S = 3.0


def machine_addresses() -> list[InterfaceAddress]:
    """Without link-local ones, to which no program can bind by the address alone. Raises OSError."""
    names = dict(socket.if_nameindex())
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.settimeout(WITHIN_S)
        request = _ABOUT.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
        kernel.send(_HEAD.pack(_HEAD.size + len(request), _RTM_GETADDR, _NLM_F_REQUEST | _NLM_F_DUMP, 1, 0) + request)
        found = [
            InterfaceAddress(names.get(index, str(index)), address)
            for index, address in _answers(kernel)
            if not address.is_link_local
        ]
    return sorted(found, key=lambda each: (each.interface, each.address.version, int(each.address)))


def _answers(kernel: socket.socket) -> Iterator[tuple[int, IPv4Address | IPv6Address]]:
    while True:
        data = kernel.recv(1 << 16)
        at = 0
        while at + _HEAD.size <= len(data):
            length, kind, *_ = _HEAD.unpack_from(data, at)
            if kind == _NLMSG_DONE:
                return
            if kind == _NLMSG_ERROR:
                raise OSError("the kernel does not tell the addresses of this machine")
            if kind == _RTM_NEWADDR:
                yield from _address(data[at + _HEAD.size : at + length])
            at += (length + 3) & ~3


def _address(message: bytes) -> Iterator[tuple[int, IPv4Address | IPv6Address]]:
    family, _, _, _, index = _ABOUT.unpack_from(message)
    values: dict[int, bytes] = {}
    at = _ABOUT.size
    while at + _ATTRIBUTE.size <= len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, at)
        values[kind] = message[at + _ATTRIBUTE.size : at + length]
        at += max(_ATTRIBUTE.size, (length + 3) & ~3)
    # Of a point-to-point link IFA_ADDRESS is the other end.
    raw = values.get(_IFA_LOCAL) or values.get(_IFA_ADDRESS)
    if raw is None:
        return
    if family == socket.AF_INET:
        yield index, IPv4Address(raw)
    elif family == socket.AF_INET6:
        yield index, IPv6Address(raw)
