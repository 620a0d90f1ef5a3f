"""Which address of this machine `bind_network` means. Decides only; the caller says which addresses there are.

`any` is every address. Otherwise it is a name from `networks`, a CIDR such as 10.1.0.0/16, or an interface; exactly one address
must match. IPv6 counts only where no IPv4 address matches, so that an interface with one of each is not ambiguous.
"""

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import NamedTuple

from lattice.config.load import ConfigError

ANY = "any"
# Hosts that mean every address of the machine.
EVERYWHERE = frozenset({"", "*", "0.0.0.0", "::", "[::]"})  # noqa: S104 - compared with, not bound to
MAX_SHOWN = 8


class InterfaceAddress(NamedTuple):
    interface: str
    address: IPv4Address | IPv6Address

    def __str__(self) -> str:
        return f"{self.address} ({self.interface})"


def choose_address(
    wanted: str, networks: Mapping[str, str], there: Sequence[InterfaceAddress], key: str = "bind_network"
) -> str:
    """The address to bind to; empty for `any`. Raises ConfigError when none or several match."""
    if ANY in networks:
        raise ConfigError(f'networks: "{ANY}" always means every address; choose another name')
    if wanted == ANY:
        return ""
    meant = networks.get(wanted, wanted)
    where = f'{key}: "{wanted}"' + (f" ({meant})" if meant != wanted else "")
    found = _matching(meant, there)
    if found is None:
        known = ", ".join([ANY, *sorted(networks), *dict.fromkeys(each.interface for each in there)])
        raise ConfigError(f"{where} is neither a network, a CIDR nor an interface of this machine; known: {known}")
    found = [each for each in found if each.address.version == 4] or found
    if not found:
        raise ConfigError(f"{where} matches no address of this machine, which has {_shown(there)}")
    if len(found) > 1:
        raise ConfigError(f"{where} matches several addresses: {_shown(found)}; choose one by a CIDR such as its /32")
    return str(found[0].address)


def bound(listen: str, address: str) -> str:
    """`HOST:PORT` on that address if it was on every address; unchanged otherwise."""
    host, colon, port = listen.rpartition(":")
    if not address or not colon or host not in EVERYWHERE:
        return listen
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _matching(meant: str, there: Sequence[InterfaceAddress]) -> list[InterfaceAddress] | None:
    """None when the text means nothing here."""
    try:
        network = ip_network(meant, strict=False)
    except ValueError:
        named = [each for each in there if each.interface == meant]
        return named or None
    return [each for each in there if each.address in network]


def _shown(addresses: Sequence[InterfaceAddress]) -> str:
    more = len(addresses) - MAX_SHOWN
    return ", ".join(map(str, addresses[:MAX_SHOWN])) + (f" and {more} more" if more > 0 else "")
