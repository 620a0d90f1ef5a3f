"""Lines typed after a colon."""

import pytest

from lattice.cli.context import Context, Process, Streams
from lattice.cli.errors import UsageError
from lattice.cli.flags import Flags
from lattice.cli.tui.orders import GoTo, Quit, Run, flag_words, run_quietly, understand_order
from tests.unit.cli.runner import Pipe
from tests.unit.sdk.fake_api import FakeApi


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("", None),
        ("q", Quit()),
        ("nodes", GoTo("nodes")),
        ("allocations state:failed user:ada", GoTo("allocations?state:failed user:ada")),
        ('allocations name:"night run"', GoTo('allocations?name:"night run"')),
        ("allocations?state:failed since:2h", GoTo("allocations?state:failed since:2h")),
        ("allocations/a17/log", GoTo("allocations/a17/log")),
        ("a17", GoTo("allocations/a17")),
        ("17_3", GoTo("allocations/17_3")),
        ("lattice submit -- sleep 60", Run(("submit", "--", "sleep", "60"), False)),
        ("usage --days=7", Run(("usage", "--days=7"), False)),
        ("drain n1 fan is loud", Run(("node", "drain", "n1", "--reason=fan is loud"), False)),
        ("drain n1 --reason=x", Run(("node", "drain", "n1", "--reason=x"), False)),
        ("attach a17", Run(("attach", "a17"), True)),
        ("logs -f a17", Run(("logs", "-f", "a17"), True)),
        ("logs a17", Run(("logs", "a17"), False)),
    ],
)
def test_a_line_means_a_view_an_allocation_or_a_command(text: str, meaning: object) -> None:
    assert understand_order(text) == meaning


@pytest.mark.parametrize("text", ["submit 'open", "tui", "up", "lattice down"])
def test_what_cannot_be_run_here_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        understand_order(text)


def context(api: FakeApi, **flags: object) -> Context:
    pipe = Pipe()
    process = Process(
        streams=Streams(stdin=pipe, stdout=pipe, stderr=pipe),
        environment={"HOME": "/nonexistent", "LATTICE_TOKEN": "secret"},
    )
    return Context(process=process, flags=Flags(api_url=api.url, **flags))  # type: ignore[arg-type]


def test_a_command_speaks_to_the_same_cluster_and_what_it_says_is_caught(api: FakeApi) -> None:
    api.on("GET", "/whoami", {"user": "ada", "tenant": "default", "roles": []})
    code, said = run_quietly(["whoami"], context(api))
    assert (code, "ada" in said) == (0, True)
    code, said = run_quietly(["bogus"], context(api))
    assert (code, said.splitlines()[0]) == (2, 'error: "bogus" is not a command')


def test_the_flags_of_the_screen_go_along_with_a_command_that_gets_the_terminal() -> None:
    flags = Flags(api_url="http://x", as_user="ada", tenant="t", insecure_http=True, no_color=True)
    assert flag_words(flags) == ["--as=ada", "--tenant=t", "--api-url=http://x", "--insecure-http", "--no-color"]
    assert flag_words(Flags()) == []
