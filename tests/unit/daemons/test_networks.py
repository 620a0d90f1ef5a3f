"""`bind_network` of servers and agents, with the addresses that this machine really has."""

import argparse
import asyncio
import socket
from ipaddress import ip_address
from pathlib import Path

import pytest

from lattice.agent.driver import Driver
from lattice.config.load import ConfigError
from lattice.config.networks import InterfaceAddress
from lattice.config.schema import ServerConfig
from lattice.config.sections.front import ApiSection
from lattice.config.sections.quorum import QuorumSection
from lattice.daemons.agent.choices import CannotStart
from lattice.daemons.agent.listener import listen
from lattice.daemons.outside.interfaces import machine_addresses
from lattice.daemons.programs.agent import build_parser, build_settings
from lattice.daemons.server.networks import on_its_network
from lattice.testing import scenario


def config(network: str, rest: str = "0.0.0.0:8080", **networks: str) -> ServerConfig:
    api = ApiSection(hmac_secret="env://SECRET", rest_listen=rest, agent_listen="", proxy_listen="[::]:0")
    quorum = QuorumSection(peer_listen="0.0.0.0:2380")
    return ServerConfig(data_dir="/nowhere", api=api, quorum=quorum, bind_network=network, networks=networks)


def test_the_kernel_tells_the_addresses_of_this_machine() -> None:
    there = machine_addresses()
    assert InterfaceAddress("lo", ip_address("127.0.0.1")) in there
    assert {each.interface for each in there} <= {name for _, name in socket.if_nameindex()}
    assert not any(each.address.is_link_local for each in there)


def test_listeners_of_a_server_move_to_its_network() -> None:
    moved = on_its_network(config("hsn", hsn="127.0.0.1/32"))
    assert (moved.api.rest_listen, moved.api.proxy_listen, moved.api.agent_listen) == (
        "127.0.0.1:8080",
        "127.0.0.1:0",
        "",
    )
    assert moved.api.grpc_listen == config("any").api.grpc_listen  # on loopback, as it was written
    assert moved.quorum.peer_listen == "127.0.0.1:2380"


def test_any_network_changes_nothing() -> None:
    assert on_its_network(config("any")) == config("any")
    assert on_its_network(config("any", hsn="10.0.0.0/8")).api == config("any").api


def test_a_network_that_would_change_nothing_is_refused() -> None:
    fixed = ServerConfig(data_dir="/nowhere", api=ApiSection(hmac_secret="env://SECRET"), bind_network="lo")
    with pytest.raises(ConfigError, match="no listener is on every address, so lo would change nothing"):
        on_its_network(fixed)


def test_a_network_that_this_machine_does_not_have_is_refused() -> None:
    with pytest.raises(ConfigError, match=r'bind_network: "hsn" \(203.0.113.0/24\) matches no address'):
        on_its_network(config("hsn", hsn="203.0.113.0/24"))


def options(state_dir: Path, *words: str) -> argparse.Namespace:
    return build_parser().parse_args(["--node-id", "n1", "--state-dir", str(state_dir), "--no-checks", *words])


def test_an_agent_listens_on_its_network_and_is_reached_there(tmp_path: Path) -> None:
    words = ("--bind-network", "hsn", "--networks", "hsn=127.0.0.0/8", "--metrics-listen", "0.0.0.0:9103")
    settings = build_settings(options(tmp_path, *words))
    assert (settings.bind_host, settings.facts.address) == ("127.0.0.1", "127.0.0.1")
    assert settings.metrics_listen == ("127.0.0.1", 9103)


def test_what_an_agent_says_of_its_address_itself_stays(tmp_path: Path) -> None:
    words = ("--bind-network", "lo", "--address", "n1.example.org", "--metrics-listen", "127.0.0.2:9103")
    settings = build_settings(options(tmp_path, *words))
    assert (settings.bind_host, settings.facts.address) == ("127.0.0.1", "n1.example.org")
    assert settings.metrics_listen == ("127.0.0.2", 9103)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--bind-network", "nowhere0"), "--bind-network: .* is neither a network, a CIDR nor an interface"),
        (("--networks", "hsn"), "--networks: 'hsn' is not NAME=CIDR"),
    ],
)
def test_networks_that_an_agent_cannot_use_are_refused(tmp_path: Path, words: tuple[str, ...], why: str) -> None:
    with pytest.raises(CannotStart, match=why):
        build_settings(options(tmp_path, *words))


@scenario
async def test_the_collectors_listener_is_bound_to_the_network_alone(tmp_path: Path) -> None:
    driver = Driver(
        build_settings(options(tmp_path, "--bind-network", "127.0.0.1/32", "--address", "n1.example.org")), None
    )
    listener = await listen(driver, ())
    assert listener is not None
    port = int(driver.collector_address.rpartition(":")[2])
    with pytest.raises(OSError):  # noqa: PT011 - whatever the kernel says
        await asyncio.open_connection("127.0.0.2", port)
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.close()
    listener.close()
