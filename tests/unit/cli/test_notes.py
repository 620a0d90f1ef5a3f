"""Notes of the command line: on a raw terminal they need lines of their own."""

from lattice.cli.context import Context, Process, Streams
from lattice.cli.flags import Flags
from tests.unit.cli.runner import Pipe


def test_a_note_on_a_raw_terminal_has_its_own_line_and_is_told_once() -> None:
    stderr = Pipe()
    context = Context(process=Process(streams=Streams(stdin=Pipe(), stdout=Pipe(), stderr=stderr)), flags=Flags())
    context.note("no answer from a; trying again for up to 59 s")
    context.has_raw_terminal = True
    for left in (59, 58):
        context.note(f"no answer from a; trying again for up to {left} s")
    assert stderr.getvalue() == (
        b"note: no answer from a; trying again for up to 59 s\n"
        b"\r\n[lattice] no answer from a; trying again for up to 59 s\r\n"
    )
