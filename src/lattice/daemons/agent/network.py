"""`--bind-network`: the address of this node on the network that agents are to use."""

import argparse
from collections.abc import Callable

from lattice.config.load import ConfigError
from lattice.config.networks import ANY, EVERYWHERE, choose_address
from lattice.daemons.agent.choices import CannotStart, split_list
from lattice.daemons.outside.interfaces import machine_addresses


def add_network_options(add: Callable[..., argparse.Action]) -> None:
    add("--address", default="", help="address at which others reach this node (default: that of --bind-network)")
    add(
        "--bind-network",
        default=ANY,
        metavar="NETWORK",
        help="network on which this agent listens: any, a name in --networks, a CIDR or an interface (default: %(default)s)",
    )
    add("--networks", default="", metavar="LIST", help="names for --bind-network: hsn=10.1.0.0/16,mgmt=eth0")


def bind_host(options: argparse.Namespace) -> str:
    """The address to listen on; empty for all of them. Raises CannotStart."""
    networks = dict(_named(part) for part in split_list(options.networks))
    if options.bind_network == ANY and not networks:
        return ""
    try:
        return choose_address(options.bind_network, networks, machine_addresses(), "--bind-network")
    except (ConfigError, OSError) as error:
        raise CannotStart(str(error)) from error


def figures_place(options: argparse.Namespace, host: str) -> tuple[str, int] | None:
    """Where the agent's metrics are shown: those on every address move to the network's."""
    place: tuple[str, int] | None = options.metrics_listen
    return (host, place[1]) if place is not None and host and place[0] in EVERYWHERE else place


def _named(part: str) -> tuple[str, str]:
    name, equals, meant = part.partition("=")
    if not (equals and name.strip() and meant.strip()):
        raise CannotStart(f"--networks: {part!r} is not NAME=CIDR or NAME=INTERFACE")
    return name.strip(), meant.strip()
