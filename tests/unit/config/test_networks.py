"""Which address of a machine `bind_network` means."""

from ipaddress import ip_address

import pytest

from lattice.config.load import ConfigError
from lattice.config.networks import InterfaceAddress, bound, choose_address

HERE = [
    InterfaceAddress(name, ip_address(text))
    for name, text in (
        ("eth0", "192.168.7.4"),
        ("hsn0", "10.1.0.4"),
        ("hsn0", "fd00::4"),
        ("hsn1", "10.1.0.5"),
        ("lo", "127.0.0.1"),
        ("lo", "::1"),
        ("six", "fd01::1"),
    )
]
NETWORKS = {"hsn": "10.1.0.4/32", "management": "eth0", "wide": "10.1.0.0/16", "gone": "172.16.0.0/12"}


@pytest.mark.parametrize(
    ("wanted", "address"),
    [
        ("any", ""),
        ("hsn", "10.1.0.4"),
        ("management", "192.168.7.4"),
        ("eth0", "192.168.7.4"),
        ("hsn0", "10.1.0.4"),  # beside an IPv6 address of the same interface
        ("192.168.0.0/16", "192.168.7.4"),
        ("192.168.7.4", "192.168.7.4"),
        ("six", "fd01::1"),
        ("fd00::/16", "fd00::4"),
    ],
)
def test_what_can_be_meant(wanted: str, address: str) -> None:
    assert choose_address(wanted, NETWORKS, HERE) == address


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ("nothing", "neither a network, a CIDR nor an interface of this machine; known: any, gone, hsn, management"),
        ("gone", r'"gone" \(172.16.0.0/12\) matches no address of this machine, which has 192.168.7.4 \(eth0\)'),
        ("10.9.0.0/16", "matches no address"),
        ("wide", r"matches several addresses: 10.1.0.4 \(hsn0\), 10.1.0.5 \(hsn1\)"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_there_is(wanted: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        choose_address(wanted, NETWORKS, HERE)


def test_any_is_not_a_name_to_give_away() -> None:
    with pytest.raises(ConfigError, match="always means every address"):
        choose_address("any", {"any": "eth0"}, HERE)


@pytest.mark.parametrize(
    ("listen", "address", "becomes"),
    [
        ("0.0.0.0:80", "10.1.0.4", "10.1.0.4:80"),
        ("[::]:80", "fd01::1", "[fd01::1]:80"),
        ("*:80", "10.1.0.4", "10.1.0.4:80"),
        ("127.0.0.1:80", "10.1.0.4", "127.0.0.1:80"),
        ("server.example.org:80", "10.1.0.4", "server.example.org:80"),
        ("0.0.0.0:80", "", "0.0.0.0:80"),
        ("", "10.1.0.4", ""),
    ],
)
def test_only_listeners_on_every_address_move(listen: str, address: str, becomes: str) -> None:
    assert bound(listen, address) == becomes
