"""Hollow nodes reach collectors of their own process without a network: the same tickets, questions and answers, no sockets."""

import asyncio
from collections.abc import Callable

from lattice.agent.collectors.member import Gathering
from lattice.wire.agents.collecting import GatheredShare

RETRY_S = (0.1, 5.0)


class HollowLine:
    """One member's connection, as both sides see it; tried again until the member closes it."""

    def __init__(
        self,
        find: Callable[[], Gathering | None],
        member: int,
        ticket: int,
        asked: Callable[[], None],
        lost: Callable[[], None],
    ) -> None:
        self._find = find
        self._member, self._ticket = member, ticket
        self._asked, self._lost = asked, lost
        self._gathering: Gathering | None = None
        self._is_left = False
        self._was_asked = False
        self._delay_s = RETRY_S[0]
        self._timer = asyncio.get_running_loop().call_later(0.0, self._join)

    def _join(self) -> None:
        gathering = self._find()
        if gathering is not None and gathering.joined(self._member, self._ticket, self):
            self._gathering, self._delay_s = gathering, RETRY_S[0]
            return
        self._again()

    def _again(self) -> None:
        if not self._is_left:
            self._timer = asyncio.get_running_loop().call_later(self._delay_s, self._join)
            self._delay_s = min(RETRY_S[1], 2 * self._delay_s)

    # As the collector has it.

    def ask(self) -> None:
        asyncio.get_running_loop().call_soon(self._hear)

    def _hear(self) -> None:
        if not self._is_left:
            self._was_asked = True
            self._asked()

    # As both have it: the collector sends the member away, or the member leaves.

    def close(self) -> None:
        gathering, self._gathering = self._gathering, None
        if gathering is not None:
            asyncio.get_running_loop().call_soon(self._part, gathering)

    def _part(self, gathering: Gathering) -> None:
        gathering.left(self._member, self)
        if self._is_left:
            return
        if self._was_asked:
            self._was_asked = False
            self._lost()
        self._again()

    # As the member has it.

    def answer(self, beat: bytes) -> None:
        if self._gathering is not None:
            self._gathering.answered(self._member, beat)

    def bring(self, shares: list[GatheredShare]) -> None:
        if self._gathering is not None:
            self._gathering.brought(self._member, shares)

    def leave(self) -> None:
        self._is_left = True
        self._timer.cancel()
        self.close()


class _MemberEnd:
    """What the member holds: closing it means leaving for good."""

    def __init__(self, line: HollowLine) -> None:
        self._line = line

    def answer(self, beat: bytes) -> None:
        self._line.answer(beat)

    def bring(self, shares: list[GatheredShare]) -> None:
        self._line.bring(shares)

    def close(self) -> None:
        self._line.leave()


class HollowSwitchboard:
    """The collectors of this process by their pretended addresses."""

    def __init__(self) -> None:
        self._gatherings: dict[str, Gathering] = {}

    def put(self, address: str, gathering: Gathering) -> None:
        self._gatherings[address] = gathering

    def connect(
        self, address: str, member: int, ticket: int, *, asked: Callable[[], None], lost: Callable[[], None]
    ) -> _MemberEnd:
        return _MemberEnd(HollowLine(lambda: self._gatherings.get(address), member, ticket, asked, lost))


def pretended_address(place: int) -> str:
    """A port without a listener, so that a probe is refused immediately."""
    return f"127.{1 + (place >> 16)}.{place >> 8 & 255}.{place & 255}:1"
