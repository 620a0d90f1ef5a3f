"""The program itself: signals, closed pipes, and what it leaves on its streams."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lattice.cli.context import Context, Process, Streams
from lattice.cli.flags import Flags
from lattice.cli.registry import COMMANDS, is_read_only
from lattice.cli.topics import TOPICS, topic_text
from tests.unit.cli.runner import Cli, Pipe, allocation
from tests.unit.sdk.fake_api import Asked, FakeApi, Reply

PROGRAM = str(Path(sys.executable).with_name("lattice"))


@pytest.fixture
def variables(api: FakeApi, tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "LATTICE_API_URL": api.url, "LATTICE_TOKEN": "t", "PYTHONUNBUFFERED": "1"}


def test_a_table_and_an_exit_code(api: FakeApi, variables: dict[str, str]) -> None:
    api.on("GET", "/allocations/a17", allocation(name="tänzer"))
    outcome = subprocess.run([PROGRAM, "status", "a17"], env=variables, capture_output=True, check=False)
    assert (outcome.returncode, outcome.stderr) == (0, b"")
    assert "tänzer" in outcome.stdout.decode()
    outcome = subprocess.run([PROGRAM, "status", "a1"], env=variables, capture_output=True, check=False)
    assert (outcome.returncode, outcome.stdout) == (4, b"")


def test_a_reader_that_goes_away_is_no_error(api: FakeApi, variables: dict[str, str]) -> None:
    api.on("GET", "/allocations/a17/logs", Reply(raw=b"line\n" * 2_000_000))
    program = subprocess.Popen(
        [PROGRAM, "logs", "a17", "--stdout"], env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with program:
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdout.readline()
        program.stdout.close()
        assert program.stderr.read() == b""
        assert program.wait(timeout=20) == 141


def test_an_interrupt_ends_quietly(api: FakeApi, variables: dict[str, str]) -> None:
    program: subprocess.Popen[bytes] | None = None

    def interrupt(_asked: Asked) -> Reply:
        assert program is not None
        program.send_signal(signal.SIGINT)
        program.wait(timeout=20)
        return Reply(is_cut=True)

    api.on("GET", "/allocations/a17/wait", interrupt)
    program = subprocess.Popen([PROGRAM, "wait", "a17"], env=variables, stderr=subprocess.PIPE)
    with program:
        assert program.stderr is not None
        assert program.stderr.read() == b""
        assert program.wait(timeout=20) == 130


@pytest.mark.parametrize(("where", "code"), [(">&-", "0"), (">/dev/full", "1"), ("<&- >&- 2>&-", "0")])
def test_output_that_leads_nowhere_ends_without_a_traceback(
    where: str, code: str, api: FakeApi, variables: dict[str, str]
) -> None:
    api.on("GET", "/allocations/a17", allocation())
    line = f"({PROGRAM} status a17 {where}); echo $?"
    outcome = subprocess.run(["sh", "-c", line], env=variables, capture_output=True, text=True, check=True)
    assert outcome.stdout == f"{code}\n"
    assert "Traceback" not in outcome.stderr
    assert ("cannot write the output" in outcome.stderr) == (code == "1")


def test_a_command_imports_nothing_of_inspect_and_others_can_do_so_afterwards() -> None:
    program = """
import gc, sys
import lattice.cli.main
from lattice.cli.light_imports import collect_again
print(*sorted({"inspect", "ast", "tokenize", "typing_extensions"} & {*sys.modules}), gc.isenabled())
collect_again()
print(gc.isenabled(), gc.get_freeze_count() > 0)
import dataclasses, inspect, typing_extensions
print(inspect.signature(lambda a, b=1: 0), dataclasses.inspect.isclass(int))
"""
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False", "True True", "(a, b=1) True"]


def test_help_about_a_topic(cli: Cli) -> None:
    assert cli("help", "times").out.startswith("times: how to write times and durations")
    assert "  dependencies   work that waits for other work\n" in cli("help", "topics").out
    assert cli("help", "submit").out == cli("submit", "--help").out
    unknown = cli("help", "tiems")
    assert (unknown.code, unknown.err) == (
        2,
        'error: there is no help about "tiems"\n  hint: did you mean `lattice help times`?\n',
    )


@pytest.mark.parametrize("topic", TOPICS)
def test_pages_of_topics_name_only_commands_that_exist(topic: str) -> None:
    named = re.findall(r"lattice ([a-z][a-z-]*)", topic_text(topic))
    assert [words for words in named if words.split()[0] not in {*COMMANDS, "help"}] == []


def test_help_with_all_flags(cli: Cli) -> None:
    assert "--token-file" not in cli("status", "--help").out
    assert "--token-file" in cli("status", "--help", "--all").out


def test_a_listing_on_a_terminal_gives_up_soon(cli: Cli) -> None:
    def patience(*words: str, is_terminal: bool, retry_for: float | None = None) -> float:
        streams = Streams(stdin=Pipe(), stdout=Pipe(is_terminal=is_terminal), stderr=Pipe())
        context = Context(
            process=Process(streams=streams), flags=Flags(retry_for=retry_for), is_read=is_read_only(words)
        )
        return context.retry_for_s()

    assert patience("status", is_terminal=True) == 5
    assert patience("admin", "tenant", "list", is_terminal=True) == 5
    assert patience("status", is_terminal=False) == 60
    assert patience("cancel", is_terminal=True) == patience("wait", is_terminal=True) == 60
    assert patience("status", is_terminal=True, retry_for=20) == 20


def test_settings_with_their_meaning(api: FakeApi, cli: Cli) -> None:
    setting = {"key": "agent.grace_s", "value": 60, "default": "30", "help": "time between SIGTERM and SIGKILL"}
    api.on("GET", "/settings", {"items": [setting]})
    assert cli("admin", "config", "list").lines == ["KEY            VALUE", "agent.grace_s  60"]
    assert cli("admin", "config", "list", "-o", "wide").lines == [
        "KEY            VALUE  DEFAULT  MEANING",
        "agent.grace_s  60     30       time between SIGTERM and SIGKILL",
    ]
