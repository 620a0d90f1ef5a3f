"""A terminal with several clients: whose bytes count, whose window counts, and how long it waits."""

from lattice.agent.shim.terminals.terminal import MAX_CLIENTS, Terminal


def test_every_client_counts_its_own_bytes() -> None:
    terminal = Terminal({}, 0.0)
    assert terminal.fresh("one", 0, b"abc") == b"abc"
    terminal.note_typed("one", 3)
    assert terminal.fresh("two", 0, b"xy") == b"xy"
    terminal.note_typed("two", 2)
    assert terminal.fresh("one", 0, b"abcde") == b"de"
    assert terminal.fresh("one", 2, b"c") == b""
    assert terminal.fresh("two", 3, b"z") is None
    assert (terminal.taken_of("one"), terminal.taken_of("two"), terminal.taken_of("three")) == (3, 2, 0)


def test_the_window_of_whoever_typed_last_counts() -> None:
    terminal = Terminal({}, 0.0)
    assert terminal.note_window("one", {"rows": 10, "columns": 20}) == (10, 20)
    assert terminal.note_typed("one", 1) is None
    assert terminal.note_window("two", {"rows": 30, "columns": 40}) is None
    assert terminal.note_typed("two", 1) == (30, 40)
    assert terminal.note_typed("one", 1) == (10, 20)
    assert terminal.note_window("one", {"rows": 11, "columns": 21}) == (11, 21)


def test_it_waits_for_clients_as_long_as_it_was_told() -> None:
    assert Terminal({"keep_s": 0}, 5.0).due_boot_s() == 0.0
    terminal = Terminal({"keep_s": 60}, 5.0)
    assert terminal.due_boot_s() == 65.0
    terminal.seen_boot_s = 30.0
    assert terminal.due_boot_s() == 90.0
    terminal.was_hung_up = True
    assert terminal.due_boot_s() == 0.0


def test_clients_that_come_and_go_do_not_fill_the_memory() -> None:
    terminal = Terminal({}, 0.0)
    for number in range(2 * MAX_CLIENTS):
        terminal.note_window(f"c{number}", {"rows": 10, "columns": 20})
        terminal.note_typed(f"c{number}", 1)
    assert terminal.taken_of("c0") == 0
    assert terminal.taken_of(f"c{2 * MAX_CLIENTS - 1}") == 1
