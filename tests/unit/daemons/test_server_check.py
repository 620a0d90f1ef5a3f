"""What lattice-server --check-config looks at beyond the file."""

import os
import socket
from pathlib import Path

import pytest

from lattice.config.load import ConfigError
from lattice.config.schema import ApiSection, PeerSection, QuorumSection, ServerConfig
from lattice.daemons.programs import server_check
from lattice.daemons.programs.server_check import check_surroundings, connect_outcomes


def config(data_dir: Path, rest: str = "127.0.0.1:0", peers: list[PeerSection] | None = None) -> ServerConfig:
    api = ApiSection(hmac_secret="env://SECRET", rest_listen=rest, grpc_listen="127.0.0.1:0")
    return ServerConfig(data_dir=str(data_dir), api=api, name="s1", quorum=QuorumSection(peers=peers or []))


def test_a_directory_that_does_not_exist_yet_is_fine_and_stays_absent(tmp_path: Path) -> None:
    check_surroundings(config(tmp_path / "a" / "b"))
    assert not (tmp_path / "a").exists()


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"data_dir: .*/file is not a directory"):
        check_surroundings(config(tmp_path / "file" / "data"))


def test_a_directory_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(ConfigError, match="belongs to uid"):
        check_surroundings(config(tmp_path))


def test_the_log_needs_a_local_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_check, "_file_system", lambda _: "nfs4")
    with pytest.raises(ConfigError, match="is on nfs4; the log needs a local disk"):
        check_surroundings(config(tmp_path))


def test_the_file_system_is_that_of_the_innermost_mount() -> None:
    assert server_check._file_system(Path("/proc/self")) == "proc"


def test_a_port_in_use_is_named_with_its_key(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError, match=r"api.rest_listen: cannot listen on .* in use"):
            check_surroundings(config(tmp_path, address))


def test_the_other_servers_are_tried(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as there:
        here = f"127.0.0.1:{there.getsockname()[1]}"
        with socket.create_server(("127.0.0.1", 0)) as closed:
            away = f"127.0.0.1:{closed.getsockname()[1]}"
        peers = [
            PeerSection(name=name, rest="http://h:1", grpc="h:2", client=client, peer=here)
            for name, client in (("s1", away), ("s2", away))
        ]
        outcomes = list(connect_outcomes(config(tmp_path, peers=peers)))
    assert outcomes == [
        (f"server s2, etcd client port {away}", "Connection refused"),
        (f"server s2, etcd peer port {here}", ""),
    ]
