"""Connections that are kept between requests, and endpoints that requests are spread over."""

from collections.abc import Callable

from lattice.api.gateway.kept import KEPT_S, MAX_EACH, KeptTunnels
from lattice.api.gateway.spreading import FIRST_OUT_S, LONGEST_OUT_S, Spreading
from lattice.core.machine.parts.services import Endpoint


class Quiet:
    """Implements `Tunnel`."""

    def __init__(self) -> None:
        self.is_quiet = True
        self.is_closed = False

    async def read(self) -> bytes:
        return b""

    async def write(self, data: bytes) -> None:
        return

    def end(self) -> None:
        return

    def close(self) -> None:
        self.is_closed = True


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0
        self.due: list[Callable[[], None]] = []

    def later(self, delay_s: float, call: Callable[[], None]) -> None:
        self.due.append(call)

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds
        due, self.due = self.due, []
        for call in due:
            call()


def kept() -> tuple[KeptTunnels, Clock]:
    clock = Clock()
    return KeptTunnels(lambda: clock.now_s, clock.later), clock


def test_a_connection_is_taken_by_its_own_key_and_the_freshest_first() -> None:
    tunnels, clock = kept()
    first, second = Quiet(), Quiet()
    tunnels.keep("a", first)
    clock.now_s += 1
    tunnels.keep("a", second)
    assert tunnels.take("b") is None
    found = tunnels.take("a")
    assert found is not None
    assert (found.tunnel, found.idle_s) == (second, 0)
    assert tunnels.take("a", youngest_s=0.5) is None  # the other one waited for longer
    assert tunnels.take("a") is not None
    assert (tunnels.take("a"), len(tunnels)) == (None, 0)


def test_what_has_ended_or_waited_too_long_is_closed() -> None:
    tunnels, clock = kept()
    ended, old = Quiet(), Quiet()
    tunnels.keep("a", ended)
    ended.is_quiet = False
    assert (tunnels.take("a"), ended.is_closed) == (None, True)
    tunnels.keep("a", old)
    tunnels.keep("b", Quiet())
    clock.pass_s(KEPT_S / 2)
    assert len(tunnels) == 2
    clock.pass_s(KEPT_S)
    assert (old.is_closed, len(tunnels), clock.due) == (True, 0, [])
    tunnels.keep("a", ended)
    assert len(tunnels) == 0


def test_no_more_are_kept_than_can_be_used() -> None:
    tunnels, _ = kept()
    many = [Quiet() for _ in range(MAX_EACH + 1)]
    for each in many:
        tunnels.keep("a", each)
    assert (len(tunnels), many[-1].is_closed) == (MAX_EACH, True)
    tunnels.close()
    assert all(each.is_closed for each in many)


A, B = Endpoint(1, 1, "n1", 80), Endpoint(1, 1, "n2", 80)


def test_a_request_goes_where_the_fewest_are_in_flight() -> None:
    spreading = Spreading(lambda: 0.0)
    assert spreading.choose([]) is None
    assert [spreading.choose([A, B]) for _ in range(4)] == [A, B, A, B]
    spreading.done(B, has_failed=False)
    assert [spreading.choose([A, B]) for _ in range(2)] == [B, A]
    assert (spreading.in_flight(A), spreading.in_flight(B)) == (3, 2)


def test_one_that_failed_is_left_out_for_a_while_unless_there_is_no_other() -> None:
    now = [0.0]
    spreading = Spreading(lambda: now[0])
    assert spreading.choose([A, B]) == A
    spreading.done(A, has_failed=True)
    assert spreading.is_out(A)
    assert [spreading.choose([A, B]) for _ in range(3)] == [B, B, B]
    assert spreading.choose([A]) == A
    spreading.done(A, has_failed=True)
    now[0] = FIRST_OUT_S
    assert spreading.is_out(A)  # twice as long after the second failure
    now[0] = 2 * FIRST_OUT_S
    assert not spreading.is_out(A)
    assert spreading.choose([A, B]) == A
    assert spreading.choose([A, B], tried=[A]) == B
    spreading.done(A, has_failed=False)
    for _ in range(20):
        spreading.choose([A])
        spreading.done(A, has_failed=True)
    now[0] += LONGEST_OUT_S
    assert not spreading.is_out(A)
    assert not spreading.is_out(Endpoint(9, 1, "n9", 1))
