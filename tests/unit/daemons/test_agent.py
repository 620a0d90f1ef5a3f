"""The command line of lattice-agent."""

import os
import threading
from pathlib import Path

import pytest

from lattice.daemons.agent.choices import CannotStart, choose_endpoints, choose_token
from lattice.daemons.programs.agent import build_parser, build_settings, main, take_state_dir


def arguments(tmp_path: Path, *more: str) -> list[str]:
    return ["--node-id", "n1", "--state-dir", str(tmp_path / "state"), *more]


def test_hardware_that_is_not_declared_is_looked_up(tmp_path: Path) -> None:
    settings = build_settings(build_parser().parse_args(arguments(tmp_path)))
    assert settings.facts.cpus == os.cpu_count()
    assert settings.facts.memory_mb > 100
    declared = build_settings(
        build_parser().parse_args(arguments(tmp_path, "--cpus", "9", "--memory-mb", "77", "--features", "a, b,"))
    )
    assert (declared.facts.cpus, declared.facts.memory_mb, declared.facts.features) == (9, 77, ("a", "b"))


def test_a_topology_declares_hardware_and_must_not_contradict_the_options(tmp_path: Path) -> None:
    file = tmp_path / "node.json"
    file.write_text(
        '{"gpus": {"gpus": [{"index": 0, "vendor": "nvidia", "model": "GH200"}]},'
        ' "memory": {"domains": [{"id": 0, "domain_type": "unified", "attached_cpus": [0, 1, 2]},'
        ' {"id": 1, "domain_type": "cxl_attached", "capacity_bytes": 1073741824}]}}'
    )
    given = arguments(tmp_path, "--topology-file", str(file))
    facts = build_settings(build_parser().parse_args(given)).facts
    assert (facts.cpus, facts.gpus, facts.gpu_type) == (3, 1, "GH200")
    assert (facts.unified_memory, facts.cxl_memory_mb) == (True, 1024)
    with pytest.raises(CannotStart, match="--gpus is 4, but the topology file has 1"):
        build_settings(build_parser().parse_args([*given, "--gpus", "4"]))
    with pytest.raises(CannotStart, match="cannot read"):
        build_settings(build_parser().parse_args(arguments(tmp_path, "--topology-file", str(tmp_path / "no"))))


def test_servers_and_token_fall_back_to_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATTICE_AGENT_ENDPOINTS", "a:1,b:2")
    assert choose_endpoints("") == ("a:1", "b:2")
    assert choose_endpoints("c:3") == ("c:3",)
    monkeypatch.delenv("LATTICE_AGENT_TOKEN_FILE", raising=False)
    monkeypatch.setenv("LATTICE_AGENT_TOKEN", "secret")
    given = choose_token("")
    assert given is not None
    assert given() == "secret"
    assert "LATTICE_AGENT_TOKEN" not in os.environ, "children must not inherit it"
    file = tmp_path / "token"
    file.write_text("from file\n")
    monkeypatch.setenv("LATTICE_AGENT_TOKEN_FILE", str(file))
    token = choose_token("")
    assert token is not None
    assert token() == "from file"
    file.write_text("rotated\n")
    assert token() == "rotated"


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (("--token-file", "x"), "no server given"),
        (("--servers", "nowhere", "--token-file", "x"), "not a server address: 'nowhere'"),
        (("--servers", "a:1"), "no token given"),
        (("--node-id", "a/b", "--servers", "a:1", "--token-file", "x"), "is not a valid node name"),
    ],
)
def test_what_is_missing_or_wrong_is_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    more: tuple[str, ...],
    text: str,
) -> None:
    for name in ("LATTICE_AGENT_ENDPOINTS", "LATTICE_AGENT_TOKEN", "LATTICE_AGENT_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    assert main(arguments(tmp_path, *more)) == 2
    assert text in capsys.readouterr().err


def test_negative_figures_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for more in (("--cpus", "0"), ("--grace", "-1"), ("--keep-runs", "nan")):
        with pytest.raises(SystemExit):
            build_parser().parse_args(arguments(tmp_path, *more))
    assert "must be" in capsys.readouterr().err


def test_a_state_directory_has_one_agent(tmp_path: Path) -> None:
    lock = take_state_dir(tmp_path / "state")
    outcome: list[str] = []

    def try_again() -> None:
        with pytest.raises(CannotStart) as refused:
            take_state_dir(tmp_path / "state")
        outcome.append(str(refused.value))

    thread = threading.Thread(target=try_again)
    thread.start()
    thread.join()
    assert f"another agent (pid {os.getpid()}) uses" in outcome[0]
    os.close(lock)
    os.close(take_state_dir(tmp_path / "state"))


def test_a_node_has_directories_of_hooks_only_if_they_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    hooks = build_settings(build_parser().parse_args(arguments(tmp_path))).hooks
    assert (hooks.prologue_dir, hooks.epilogue_dir) == ("", "")
    assert not hooks.has_prologue
    assert not hooks.has_epilogue
    named = arguments(tmp_path, "--prologue-dir", ".", "--epilogue-dir", str(tmp_path))
    hooks = build_settings(build_parser().parse_args(named)).hooks
    assert (hooks.prologue_dir, hooks.epilogue_dir) == (str(tmp_path), str(tmp_path))
