"""The program itself: signals, closed pipes, and what it leaves on its streams."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.runner import Cli, allocation
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
    program = subprocess.Popen([PROGRAM, "logs", "a17"], env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
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


@pytest.mark.parametrize("word", ["diag", "top", "compare"])
def test_a_command_that_is_to_come_is_no_typing_error(word: str, cli: Cli) -> None:
    outcome = cli(word)
    assert (outcome.code, "not supported by this version" in outcome.err, "did you mean" in outcome.err) == (
        2,
        True,
        False,
    )


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
