"""The configuration file of lattice-agent, and what --check-config says."""

import os
import re
import socket
from pathlib import Path

import pytest

from lattice.config.load import ConfigError
from lattice.daemons.agent.file import OWN_FLAGS, with_file
from lattice.daemons.agent.spellings import understood
from lattice.daemons.outside import local_disk
from lattice.daemons.outside.local_disk import why_unsuitable
from lattice.daemons.programs.agent import build_parser, main
from tests.e2e.site_authority import SiteAuthority

VALID = """\
node_id: n1
servers: [a:1, b:2]
features: [fast, big]
cpus: 3
grace: 1m30s
unified_memory: true
no_checks: false
rlimit: [core=0, nofile=1024:2048]
collector_port: off
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "agent.yaml"
    (tmp_path / "token").write_text("a token\n")
    file.write_text(f"state_dir: {tmp_path / 'state'}\ntoken_file: {tmp_path / 'token'}\n" + VALID)
    return file


def test_every_flag_is_a_key(config: Path) -> None:
    options = build_parser().parse_args(with_file(build_parser(), ["--config", str(config)]))
    assert (options.node_id, options.servers, options.features) == ("n1", "a:1,b:2", "fast,big")
    assert (options.cpus, options.grace, options.unified_memory, options.no_checks) == (3, 90.0, True, False)
    assert [name for name, _ in options.rlimit] == ["core", "nofile"]
    assert options.collector_port is None
    flags = {action.dest for action in build_parser()._actions} - OWN_FLAGS
    config.write_text("xyzzy: 1\n")
    with pytest.raises(ConfigError) as unknown:
        with_file(build_parser(), ["--config", str(config)])
    assert all(flag in str(unknown.value) for flag in flags)


def test_the_command_line_overrides_the_file(config: Path) -> None:
    words = with_file(build_parser(), ["--config", str(config), "--cpus", "7", "--rlimit", "core=unlimited"])
    options = build_parser().parse_args(words)
    assert options.cpus == 7
    assert [name for name, _ in options.rlimit] == ["core", "nofile", "core"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("cpus: 0", '12:7: "cpus": must be at least 1'),
        ("cpus: many", "12:7: \"cpus\": 'many' is not a value of --cpus"),
        ("cpu: 4", '12:1: unknown key "cpu"; did you mean "cpus"?'),
        ("grace: soon", '12:8: cannot read "soon" as a duration for "grace"'),
        ("rlimit: [nofile=x]", '12:9: "rlimit": not a limit of nofile'),
        ("no_checks: perhaps", '12:12: "no_checks": expected `bool`'),
        ("log_level: loud", '12:12: "log_level": invalid enum value'),
        ("connect: true", '12:1: unknown key "connect"'),
    ],
)
def test_a_mistake_is_named_with_its_line(
    config: Path, capsys: pytest.CaptureFixture[str], line: str, said: str
) -> None:
    key = line.partition(":")[0]
    kept = [each if not each.startswith(f"{key}:") else "#" for each in config.read_text().splitlines()]
    config.write_text("\n".join([*kept, line, ""]))
    assert main(["--config", str(config)]) == 2
    assert f"{config}:{said}" in capsys.readouterr().err


def test_a_check_starts_and_makes_nothing(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--config", str(config), "--check-config"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "the configuration is valid"
    assert not (tmp_path / "state").exists()
    (tmp_path / "token").unlink()
    assert main(["--config", str(config), "--check-config"]) == 2
    assert f"cannot read the token file: {tmp_path / 'token'}: No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("servers: [nowhere]", '10: "servers": not a server address'),
        ("node_id: a b", "10: \"node_id\": 'a b' is not a valid node name"),
        ("bind_network: nosuch", '15: "bind_network": --bind-network: "nosuch"'),
        ("token_file: /nowhere/token", '13: "token_file": cannot read the token file: /nowhere/token'),
    ],
)
def test_what_cannot_work_here_is_named_with_its_line_too(
    config: Path, capsys: pytest.CaptureFixture[str], line: str, told: str
) -> None:
    key = line.partition(":")[0]
    kept = [each for each in config.read_text().splitlines() if not each.startswith(f"{key}:")]
    config.write_text("\n".join([*kept, line, ""]))
    assert main(["--config", str(config), "--check-config"]) == 2
    said = capsys.readouterr().err
    assert f"lattice-agent: {config}:{len(kept) + 1}:{told}" in said
    assert (
        main(["--config", str(config), "--check-config", f"--{key.replace('_', '-')}={line.partition(': ')[2]}"]) == 2
    )
    assert str(config) not in capsys.readouterr().err  # the command line is to blame


def test_a_token_file_that_cannot_be_read_keeps_the_agent_from_starting(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = tmp_path / "token"
    token.unlink()
    token.mkdir()
    for more in ((), ("--check-config",)):
        assert main(["--config", str(config), *more]) == 2
        assert (
            f'{config}:2:13: "token_file": cannot read the token file: {token}: Is a directory'
            in capsys.readouterr().err
        )
    token.rmdir()
    token.write_bytes(b"\xff\xfe")
    assert main(["--config", str(config)]) == 2
    assert f"{token}: it holds no token" in capsys.readouterr().err
    assert not (tmp_path / "state").exists()


def test_a_key_that_cannot_be_read_keeps_the_agent_from_starting(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    authority = SiteAuthority(tmp_path)
    certificate, key = authority.issue("n1")
    trusted = authority.ca
    lines = f"bootstrap_cert: {certificate}\nbootstrap_key: {key}\nbootstrap_ca: {trusted}\n"
    config.write_text(config.read_text() + lines)
    place = f'lattice-agent: {config}:{len(config.read_text().splitlines()) - 1}:16: "bootstrap_key": --bootstrap-key: '
    check = ["--config", str(config), "--check-config"]
    assert main(check) == 0
    key.write_text("rubbish")
    assert main(check) == 2
    assert f"{place}{key} is not the key of {certificate}" in capsys.readouterr().err
    key.unlink()
    assert main(check) == 2
    assert f"{place}cannot read {key}: No such file" in capsys.readouterr().err
    key.mkdir()
    assert main(check[:2]) == 2
    assert f"{place}cannot read {key}: Is a directory" in capsys.readouterr().err
    assert not (tmp_path / "state").exists()


def test_a_check_tries_the_servers_if_asked_to(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        reached = f"127.0.0.1:{server.getsockname()[1]}"
        with socket.create_server(("127.0.0.1", 0)) as closed:
            away = f"127.0.0.1:{closed.getsockname()[1]}"
        words = ["--config", str(config), "--check-config", "--connect", "--servers"]
        assert main([*words, reached]) == 0
        assert f"server {reached}: reached\n" in capsys.readouterr().out
        assert main([*words, f"{reached},{away}"]) == 2
        assert f"server {away}: cannot be reached: Connection refused\n" in capsys.readouterr().out
    assert main(["--config", str(config), "--connect"]) == 2
    assert "--connect needs --check-config" in capsys.readouterr().err


def test_the_flags_of_the_handbook_are_understood_with_a_note(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--quorum-endpoint", "https://s9:50051", "--cpu-cores=72", "--memory-gb=512", "--gpu-count=0"]
    assert main(["--config", str(config), *words, "--check-config"]) == 0
    told = capsys.readouterr()
    assert "72 CPUs, 524288 MB of memory, 0 GPUs" in told.out
    assert "--quorum-endpoint is understood; the flag is --servers" in told.err
    assert understood(["--quorum-endpoint=https://s9:50051"]) == ["--servers=https://s9:50051"]


def test_a_state_directory_on_a_file_server_or_of_another_user_is_refused(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_disk, "file_system", lambda *_: "nfs")
    assert main(["--config", str(config)]) == 2
    assert f"cannot use the state directory {tmp_path / 'state'}: " in capsys.readouterr().err
    assert not (tmp_path / "state").exists()
    monkeypatch.undo()
    (tmp_path / "state").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert "; run as its owner, or change the owner" in why_unsuitable(tmp_path / "state")


def test_the_example_has_every_key_and_is_a_file_that_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--example-config"])
    printed = capsys.readouterr().out
    (tmp_path / "agent.yaml").write_text(printed)
    options = build_parser().parse_args(with_file(build_parser(), ["--config", str(tmp_path / "agent.yaml")]))
    assert (options.node_id, str(options.state_dir)) == ("n1", "/var/lib/lattice/agent")
    keys = {action.dest for action in build_parser()._actions} - OWN_FLAGS
    assert keys == set(re.findall(r"^(?:# )?([a-z_]+): \S+", printed, re.MULTILINE)) & keys
