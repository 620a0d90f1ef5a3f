"""Completion: what a shell is offered, and the scripts that ask for it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.runner import Cli, allocation
from tests.unit.sdk.fake_api import FakeApi


def offered(cli: Cli, *words: str) -> list[str]:
    outcome = cli("complete-word", "--", *words)
    assert outcome.code == 0
    return outcome.lines


def test_commands_and_flags_are_offered(cli: Cli) -> None:
    assert offered(cli, "sta") == ["status"]
    assert {"submit", "admin"} <= set(offered(cli, ""))
    assert "complete-word" not in offered(cli, "")
    assert offered(cli, "admin", "tenant", "set") == ["set-quota"]
    assert offered(cli, "submit", "--wal") == ["--walltime"]
    assert offered(cli, "submit", "--ue") == ["--uenv"]
    assert offered(cli, "submit", "--im") == ["--image"]
    assert offered(cli, "submit", "--reac") == ["--reactive"]
    assert offered(cli, "status", "-o", "j") == ["json"]
    assert offered(cli, "status", "--state=Ru") == ["--state=Running"]
    assert offered(cli, "status", "--state", "=", "Ru") == ["Running"]
    assert offered(cli, "completion", "") == ["bash", "zsh", "fish"]


def test_names_seen_on_a_terminal_are_offered(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations", {"items": [allocation(17), allocation(18)]})
    api.on("GET", "/nodes", {"items": [{"id": "n1"}, {"id": "n2"}]})
    cli.is_terminal = True
    cli("status")
    cli("nodes")
    cli.environment["LATTICE_API_URL"] = "http://127.0.0.1:1"
    assert offered(cli, "logs", "a1") == ["a17", "a18"]
    assert offered(cli, "node", "drain", "n") == ["n1", "n2"]


def test_what_exists_now_is_offered_to_each_command(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations", {"items": [allocation(18)]})
    assert offered(cli, "cancel", "a") == ["a18"]
    assert api.last().parameter("state") == "Pending,Suspended,Starting,Running,Checkpointing,Stopping"
    assert offered(cli, "suspend", "") == ["a18"]
    assert api.last().parameter("state") == "Running"
    assert offered(cli, "launch", "--alloc", "") == ["a18"]
    api.on("GET", "/tenants", {"items": [{"name": "physics"}]})
    assert offered(cli, "admin", "tenant", "show", "p") == ["physics"]
    assert offered(cli, "submit", "--tenant=p") == ["--tenant=physics"]
    api.on("GET", "/settings", {"items": [{"key": "agent.grace_s"}, {"key": "node.grace_s"}]})
    assert offered(cli, "admin", "config", "set", "a") == ["agent.grace_s"]
    api.on("GET", "/projects", {"items": [{"name": "quarks", "tenant": "physics"}]})
    assert offered(cli, "project", "update", "") == ["quarks"]


def test_without_a_server_completion_offers_what_was_seen(cli: Cli) -> None:
    (cli.folder / ".cache" / "lattice").mkdir(parents=True)
    cli.write(".cache/lattice/recent.json", '{"allocations": ["a7"], "nodes": ["n1"]}')
    cli.environment["LATTICE_API_URL"] = "http://127.0.0.1:1"
    assert offered(cli, "cancel", "") == ["a7"]
    assert offered(cli, "node", "drain", "") == ["n1"]
    assert offered(cli, "admin", "config", "get", "") == []


def test_a_damaged_memory_is_no_obstacle(cli: Cli) -> None:
    (cli.folder / ".cache" / "lattice").mkdir(parents=True)
    cli.write(".cache/lattice/recent.json", "{")
    assert offered(cli, "logs", "") == []


@pytest.mark.parametrize("word", ["completion", "completions"])
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(word: str, shell: str, cli: Cli) -> None:
    outcome = cli(word, shell)
    assert outcome.code == 0
    assert "complete-word" in outcome.out


def test_an_unknown_shell_is_told(cli: Cli) -> None:
    assert cli("completion", "tcsh").code == 2


def test_bash_completes_with_the_script(cli: Cli, tmp_path: Path) -> None:
    script = cli.write("lattice.bash", cli("completion", "bash").out)
    program = Path(sys.executable).with_name("lattice")
    line = (
        f"source {script}; COMP_WORDS=({program} submit --wall); COMP_CWORD=2; "
        '_lattice; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    outcome = subprocess.run(
        ["bash", "--norc", "-c", line], env={"HOME": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert outcome.stdout == "--walltime\n"
