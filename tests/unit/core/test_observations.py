"""What is heard of nodes."""

from lattice.core.model.nodes.observations import Beat, Observations


def test_a_heartbeat_counts_only_with_a_rising_sequence() -> None:
    heard = Observations()
    heard.join("n1", 1.0)
    assert heard.hear("n1", 2.0, Beat(seq=5, load1=0.5, memory_used_mb=100))
    assert not heard.hear("n1", 3.0, Beat(seq=5))
    assert not heard.hear("n1", 3.0, Beat(seq=4))
    seen = heard.get("n1")
    assert seen is not None
    assert (seen.last_heard, seen.seq, seen.load1, seen.memory_used_mb, seen.connected) == (2.0, 5, 0.5, 100, True)


def test_a_new_stream_starts_its_sequence_again() -> None:
    heard = Observations()
    heard.join("n1", 1.0)
    heard.hear("n1", 2.0, Beat(seq=9))
    heard.leave("n1")
    assert heard.connected() == frozenset()
    heard.join("n1", 3.0)
    assert heard.hear("n1", 4.0, Beat(seq=1))
    assert heard.connected() == {"n1"}


def test_a_node_is_connected_when_it_is_admitted_and_heard_before_that() -> None:
    heard = Observations()
    heard.greet("n1", 1.0)
    assert heard.hear("n1", 2.0, Beat(seq=1))
    assert heard.connected() == frozenset()
    heard.admit("n1")
    assert heard.connected() == {"n1"}
    seen = heard.get("n1")
    assert seen is not None
    assert (seen.last_heard, seen.seq, seen.connected) == (2.0, 1, True)
    heard.greet("n1", 3.0)
    assert heard.connected() == frozenset()


def test_a_fresh_time_out_changes_nothing_else() -> None:
    heard = Observations()
    heard.join("n1", 1.0)
    heard.hear("n1", 2.0, Beat(seq=3, load1=1.5))
    heard.touch("n1", 50.0)
    heard.touch("n2", 50.0)
    assert {node: (o.last_heard, o.seq, o.load1, o.connected) for node, o in heard.nodes().items()} == {
        "n1": (50.0, 3, 1.5, True),
        "n2": (50.0, 0, 0.0, False),
    }


def test_leaving_without_having_joined_is_harmless() -> None:
    heard = Observations()
    heard.leave("n1")
    assert heard.get("n1") is None
