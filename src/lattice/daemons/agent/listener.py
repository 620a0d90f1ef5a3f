"""The agent's listener for nodes whose heartbeats it collects, and for probes."""

import argparse
import asyncio
import logging
import socket
from collections.abc import Callable, Sequence

from lattice.agent.collectors.tcp import Listener
from lattice.agent.driver import Driver
from lattice.wire.agents.collecting import Alive

_log = logging.getLogger(__name__)

OFF = "off"
HOST_WITHIN_S = 3.0


def add_listener_option(add: Callable[..., argparse.Action]) -> None:
    add(
        "--collector-port",
        type=_port,
        default=0,
        metavar="PORT|off",
        help="port for heartbeats of other nodes when this node is a collector; 0 picks a free one (default: %(default)s)",
    )


def _port(text: str) -> int | None:
    if text == OFF:
        return None
    port = int(text)
    if not 0 <= port < 65536:
        raise argparse.ArgumentTypeError("must be a port, 0 for any, or off")
    return port


def own_host(address: str, endpoints: Sequence[str]) -> str:
    """The host at which others reach this node: as given, or the local address of its route to the servers. Raises OSError."""
    if address:
        host, colon, port = address.rpartition(":")
        return host if colon and port.isdigit() else address
    for endpoint in endpoints:
        host, _, port = endpoint.rpartition(":")
        try:
            found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)
            family, kind, protocol, _, target = found[0]
            with socket.socket(family, kind, protocol) as probe:
                probe.connect(target)
                return str(probe.getsockname()[0])
        except (OSError, ValueError):
            continue
    raise OSError("no route to any server")


async def listen(driver: Driver, endpoints: Sequence[str]) -> Listener | None:
    """Opens the listener and announces it to the servers; an agent that cannot listen works without it."""
    settings = driver.settings
    facts, port = settings.facts, settings.collector_port
    if port is None:
        return None
    listener = Listener(driver.collection, lambda: Alive(facts.node_id, driver.state.welcomed), driver.relay)
    try:
        async with asyncio.timeout(HOST_WITHIN_S):
            host = await asyncio.to_thread(own_host, facts.address, endpoints)
        # A loopback address only works on this machine; any other may belong to a host name or a translated network.
        only = host if host.startswith("127.") or host == "::1" else ""
        bound = await listener.listen(settings.bind_host or only, port)
    except OSError as error:
        _log.warning(
            "cannot listen for other nodes: %s; this node will not be a collector",
            str(error) or "its address was not found in time",
        )
        return None
    driver.collector_address = f"{host}:{bound}"
    return listener
