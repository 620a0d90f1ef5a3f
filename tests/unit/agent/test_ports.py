"""Ports that a node chooses: free, one for each name, and not for two runs at a time."""

import socket

import pytest

from lattice.agent.runs.ports import FIRST, LAST, NoPort, PortChooser, is_free
from lattice.ports.nodes.agents import NamedPort, RunKey, StartOrder


def order(number: int, *ports: tuple[str, int]) -> StartOrder:
    return StartOrder(key=RunKey(number, 1), exposes=tuple(NamedPort(name=name, port=port) for name, port in ports))


def numbers(told: StartOrder) -> list[int]:
    return [each.port for each in told.exposes]


def test_only_what_is_left_open_is_chosen() -> None:
    drawn = iter([5, 5, 6, 7])
    chooser = PortChooser(lambda port: port != FIRST + 6, lambda _: next(drawn))
    whole = order(1, ("web", 80))
    assert chooser.chosen(whole, lambda _: True) is whole
    told = chooser.chosen(order(1, ("a", 0), ("web", 80), ("b", 0)), lambda _: True)
    assert numbers(told) == [FIRST + 5, 80, FIRST + 7]


def test_a_port_is_given_again_only_when_its_run_is_over() -> None:
    drawn = [0]
    chooser = PortChooser(lambda _: True, lambda _: drawn[0])
    assert numbers(chooser.chosen(order(1, ("a", 0)), lambda _: True)) == [FIRST]
    with pytest.raises(NoPort, match="no free port"):
        chooser.chosen(order(2, ("a", 0)), lambda _: True)
    assert numbers(chooser.chosen(order(2, ("a", 0)), lambda _: False)) == [FIRST]


def test_a_port_in_use_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert not is_free(taken.getsockname()[1])
    told = PortChooser().chosen(order(1, ("a", 0), ("b", 0)), lambda _: True)
    assert len({port for port in numbers(told) if FIRST <= port <= LAST}) == 2
