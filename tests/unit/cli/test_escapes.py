"""Keys that are meant for `lattice attach` itself."""

import pytest

from lattice.cli.terminal.escapes import Escapes


@pytest.mark.parametrize(
    ("typed", "passed", "is_left"),
    [
        (b"~.", b"", True),
        (b"ls\r~.rest", b"ls\r", True),
        (b"ls ~.", b"ls ~.", False),
        (b"\r~~.", b"\r~.", False),
        (b"\r~/bin\r", b"\r~/bin\r", False),
        (b"\n~\r~.", b"\n~\r", True),
    ],
    ids=["at the start", "after enter", "inside a line", "two tildes", "another key", "enter behind a tilde"],
)
def test_a_tilde_at_the_start_of_a_line_waits_for_the_next_key(typed: bytes, passed: bytes, is_left: bool) -> None:
    whole, single = Escapes(), Escapes()
    assert (whole.take(typed), whole.is_left) == (passed, is_left)
    assert b"".join(single.take(bytes([byte])) for byte in typed if not single.is_left) == passed
    assert single.is_left is is_left
