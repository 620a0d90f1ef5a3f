"""Where an agent listens for other nodes: ports that can be meant, and the address under which others find it."""

import argparse
import asyncio
import socket
from pathlib import Path

import pytest

from lattice.agent.driver import Driver
from lattice.daemons.agent.listener import listen, own_host
from lattice.daemons.programs.agent import build_parser, build_settings
from lattice.testing import scenario
from lattice.wire.agents.collecting import probe


def options(*words: str, state_dir: Path = Path("/nowhere")) -> argparse.Namespace:
    return build_parser().parse_args(["--node-id", "n1", "--state-dir", str(state_dir), "--no-checks", *words])


@pytest.mark.parametrize(("said", "port"), [("0", 0), ("7000", 7000), ("65535", 65535), ("off", None)])
def test_ports_that_can_be_meant(said: str, port: int | None) -> None:
    assert options("--collector-port", said).collector_port == port


@pytest.mark.parametrize("said", ["-1", "65536", "http", "", "7000.5"])
def test_ports_that_cannot_be_meant_are_refused(said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        options(f"--collector-port={said}")
    assert refused.value.code == 2
    assert "--collector-port" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("address", "endpoints", "host"),
    [
        ("nid1.example.org", (), "nid1.example.org"),
        ("nid1.example.org:9", (), "nid1.example.org"),
        ("", ("127.0.0.1:50051",), "127.0.0.1"),
        ("", ("rubbish", "127.0.0.1:50051"), "127.0.0.1"),
    ],
)
def test_others_find_the_node_where_it_says_or_where_its_way_to_the_servers_begins(
    address: str, endpoints: tuple[str, ...], host: str
) -> None:
    assert own_host(address, endpoints) == host


@scenario
async def test_an_agent_listens_and_tells_who_it_is(tmp_path: Path) -> None:
    driver = Driver(build_settings(options(state_dir=tmp_path)), None)
    listener = await listen(driver, ("127.0.0.1:1",))
    assert listener is not None
    answer = await probe(driver.collector_address, 10.0)
    assert answer is not None
    assert (answer.node, answer.is_served) == ("n1", False)
    listener.close()


def test_an_agent_that_cannot_listen_works_without(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        driver = Driver(build_settings(options("--collector-port", str(port), state_dir=tmp_path)), None)
        assert await listen(driver, ("127.0.0.1:1",)) is None
        assert await listen(driver, ("rubbish",)) is None
        assert driver.collector_address == ""

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        asyncio.run(asyncio.wait_for(scenario(taken.getsockname()[1]), 60))
