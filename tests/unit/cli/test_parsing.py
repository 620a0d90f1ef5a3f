"""Words on the command line: which command they call, with which flags, and what is said when they call none."""

import subprocess
import sys
from pathlib import Path

import pytest

from lattice.cli import errors
from lattice.cli.parsing import build_parser, load_command
from lattice.cli.registry import Leaf, leaves
from tests.unit.cli.runner import Cli, allocation
from tests.unit.sdk.fake_api import FakeApi

ALL = list(leaves())
NAMES = [" ".join(words) for words, _ in ALL]


@pytest.mark.parametrize(("words", "leaf"), ALL, ids=NAMES)
def test_every_command_has_help_with_an_example(words: tuple[str, ...], leaf: Leaf, cli: Cli) -> None:
    outcome = cli(*words, "--help")
    assert outcome.code == 0
    assert "examples:\n  " in outcome.out
    assert "lattice" in outcome.out.partition("examples:")[2]
    assert outcome.err == ""


@pytest.mark.parametrize(("words", "leaf"), ALL, ids=NAMES)
def test_every_flag_says_what_it_does(words: tuple[str, ...], leaf: Leaf) -> None:
    parser = build_parser(words, leaf, load_command(leaf))
    assert [action.dest for action in parser._actions if not action.help] == []


@pytest.mark.parametrize("line", [("--help",), ("help",), ("-h",), ()])
def test_the_overview_lists_the_commands(line: tuple[str, ...], cli: Cli) -> None:
    outcome = cli(*line)
    assert outcome.code == 0
    assert "submit" in outcome.out
    assert "complete-word" not in outcome.out


def test_the_overview_explains_every_exit_code(cli: Cli) -> None:
    told = cli("--help").out
    codes = {name: value for name, value in vars(errors).items() if name.isupper() and isinstance(value, int)}
    for name, code in codes.items():
        assert f"  {code} " in told or f"{code} failed" in told, name
    assert "exit codes:" not in cli("admin", "--help").out


@pytest.mark.parametrize("line", [("admin", "--help"), ("--help", "admin"), ("help", "admin")])
def test_a_word_that_needs_another_lists_what_may_follow(line: tuple[str, ...], cli: Cli) -> None:
    assert "tenant" in cli(*line).out
    assert "tenant" in cli("admin").err


@pytest.mark.parametrize(
    "line",
    [
        ("-o", "json", "status", "a17"),
        ("status", "a17", "-o", "json"),
        ("status", "-ojson", "a17"),
        ("--output=json", "--retry-for=3", "-q", "status", "a17"),
        ("status", "--output", "json", "a17", "--no-color"),
    ],
)
def test_flags_of_every_command_stand_before_or_after_it(line: tuple[str, ...], api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations/a17", allocation())
    assert cli(*line).json["id"] == "a17"


def test_flags_may_stand_between_the_words_of_a_command(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/tenants", {"items": [{"name": "default"}]})
    assert cli("admin", "-o", "json", "tenant", "-t", "x", "list").json[0]["name"] == "default"
    assert api.last().headers["x-lattice-tenant"] == "x"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("stauts",), "did you mean `lattice status`"),
        (("node", "drian", "n1"), "did you mean `lattice node drain`"),
        (("--frobnicate", "status"), "unknown flag --frobnicate"),
        (("status", "--frobnicate"), "--frobnicate"),
        (("status", "-o", "xml"), "invalid choice: 'xml'"),
        (("status", "--retry-for", "soon"), "--retry-for"),
        (("status", "--retry-for", "-1"), "--retry-for"),
        (("wait",), "ID"),
        (("logs",), "ID"),
        (("node",), "needs a subcommand"),
        (("status", "--stat"), "--stat"),
        (("submit", "--nodse=3", "--", "true"), "unknown flag --nodse\n  hint: did you mean --nodes?\n"),
        (("submit", "--time=1h", "--", "true"), "unknown flag --time\n  hint: did you mean --walltime?\n"),
        (("status", "--zzzzz"), "unknown flag --zzzzz\n  hint: see `lattice status --help`\n"),
        (("scancel", "a1"), "did you mean `lattice cancel`"),
        (("nodes", "--nope"), "unknown flag --nope"),
    ],
)
def test_what_is_not_understood_is_told_and_nothing_is_asked(
    line: tuple[str, ...], said: str, api: FakeApi, cli: Cli
) -> None:
    outcome = cli(*line)
    assert outcome.code == 2
    assert outcome.err.startswith("error: ")
    assert said in outcome.err
    assert "hint: " in outcome.err
    assert outcome.out == ""
    assert api.asked == []


def test_ids_and_flags_may_be_mixed(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/allocations/a1/hold", allocation(1))
    api.on("POST", "/allocations/2/hold", allocation(2))
    assert cli("hold", "a1", "-q", "2").code == 0
    assert len(api.asked) == 2


HEAVY = [
    "yaml",
    "ssl",
    "http",
    "email",
    "urllib",
    "shutil",
    "json",
    "asyncio",
    "numpy",
    "shlex",
    "typing_extensions",
    "lattice.cli.commands.work.submit",
    "lattice.cli.input.submission",
]


def test_status_imports_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    program = (
        "import os, sys, lattice.cli.main as m\n"
        "sys.argv = ['lattice', 'status', 'a1', '--retry-for=0', '--api-url=http://127.0.0.1:1']\n"
        "def leave(code):\n"
        f"    print(code, [name for name in {HEAVY!r} if name in sys.modules])\n"
        "os._exit = leave\n"
        "m.main()\n"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", program],
        env={"HOME": str(tmp_path), "LATTICE_TOKEN": "t"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert outcome.stdout == "6 []\n"


def test_a_slurm_command_imports_next_to_nothing() -> None:
    program = f"import sys; sys.path[:0] = {sys.path!r}; import lattice.cli.slurm.program; print(*sys.modules)"
    outcome = subprocess.run([sys.executable, "-IS", "-c", program], capture_output=True, text=True, check=True)
    heavy = {"os", "posixpath", "re", "collections", "enum", "typing", "json", "socket"}
    assert not heavy & set(outcome.stdout.split())


def test_two_dashes_end_the_flags_of_any_command(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations/-x", allocation())
    assert cli("status", "-q", "--", "-x").out == "a17\n"


def test_an_argument_that_is_not_utf8_is_told(api: FakeApi, cli: Cli) -> None:
    for line in (("hold", "\udcff"), ("update", "a1", "--name=\udcff"), ("submit", "--", "echo", "\udcff")):
        outcome = cli(*line)
        assert outcome.code == 2
        assert "an argument is not UTF-8" in outcome.err
    assert api.asked == []
