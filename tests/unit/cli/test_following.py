"""Following of output by threads: when the command that waits for them ends."""

import threading

import pytest

from lattice.cli.following import wait_for_all


def test_a_failure_is_raised_when_all_have_ended() -> None:
    ends = threading.Event()
    thread = threading.Thread(target=ends.wait, daemon=True)
    thread.start()
    threading.Timer(0.01, ends.set).start()
    with pytest.raises(ValueError, match="first"):
        wait_for_all([thread], [ValueError("first"), ValueError("second")])
    assert not thread.is_alive()
    wait_for_all([thread], [])


def test_a_closed_pipe_does_not_wait_for_the_others() -> None:
    ends = threading.Event()
    thread = threading.Thread(target=ends.wait, daemon=True)
    thread.start()
    with pytest.raises(BrokenPipeError):
        wait_for_all([thread], [BrokenPipeError()])
    with pytest.raises(ValueError, match="lost"):
        wait_for_all([thread], [], [ValueError("lost")])
    assert thread.is_alive()
    ends.set()
