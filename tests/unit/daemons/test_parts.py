"""The parts that a server holds are the same whether it is alone or one of several."""

from pathlib import Path

import pytest

from lattice.config.schema import ServerConfig
from lattice.config.sections.front import ApiSection
from lattice.config.sections.keeping import LogSection
from lattice.config.sections.quorum import PeerSection, QuorumSection
from lattice.daemons.quorum.process import QuorumProcess
from lattice.daemons.server.process import ServerProcess
from lattice.testing import scenario

SECRET = b"0123456789abcdef0123456789abcdef"
API = ApiSection(hmac_secret="", rest_listen="127.0.0.1:0", grpc_listen="127.0.0.1:0")
PEER = PeerSection(name="s1", rest="127.0.0.1:1", grpc="127.0.0.1:2", client="127.0.0.1:3", peer="127.0.0.1:4")


def alone(folder: Path, mode: str) -> ServerProcess:
    config = ServerConfig(name="s1", data_dir=str(folder), mode=mode, api=API, log=LogSection(kind="memory"))  # type: ignore[arg-type]
    return ServerProcess(config, SECRET)


def one_of_several(folder: Path, mode: str) -> QuorumProcess:
    quorum = QuorumSection(kind="etcd", peers=[PEER])
    config = ServerConfig(name="s1", data_dir=str(folder), mode=mode, api=API, quorum=quorum)  # type: ignore[arg-type]
    return QuorumProcess(config, SECRET, "bootstrap")


@pytest.mark.parametrize("mode", ["dev", "production"])
@scenario
async def test_every_server_knows_that_it_is_in_production(tmp_path: Path, mode: str) -> None:
    """Some settings are refused in production, whatever number of servers a cluster has."""
    for build in (alone, one_of_several):
        parts = build(tmp_path / build.__name__, mode).parts
        services = parts.services_over(parts.replica, None, is_ready=lambda: True)
        assert services.is_production is (mode == "production"), build.__name__


@scenario
async def test_a_server_that_is_not_among_its_own_peers_says_so(tmp_path: Path) -> None:
    config = ServerConfig(name="s2", data_dir=str(tmp_path), api=API, quorum=QuorumSection(kind="etcd", peers=[PEER]))
    with pytest.raises(ValueError, match='does not list server "s2"'):
        QuorumProcess(config, SECRET, "bootstrap")
