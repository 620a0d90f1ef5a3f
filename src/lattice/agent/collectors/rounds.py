"""A collector's rounds: who is asked, who has answered, and when all that was gathered is sent.

A round ends when all members that can answer have, or at its limit. A member that let the last round reach its limit is asked again, but
the round does not wait for it until it answers: one dead node must not make the others look old. Times are those of the caller.
"""

from collections.abc import Mapping
from typing import Protocol

from lattice.wire.agents.collecting import MAX_SHARES, GatheredShare

# What others brought, in one message to the server. A member that brings more than fits is ignored; the others are not.
MAX_BROUGHT_BYTES = 8 << 20
_ROW_BYTES = 16
_MAX_AGE_MS = (1 << 32) - 1


class MemberLine(Protocol):
    """The connection of one member."""

    def ask(self) -> None: ...

    def close(self) -> None: ...


class Gatherer:
    """One share, and what collectors below bring of theirs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.interval_s = 0.0
        self.limit_s = 0.0
        self.began_s: float | None = None  # the open round
        self._tickets: dict[int, int] = {}
        self._lines: dict[int, MemberLine] = {}
        self._awaited: set[int] = set()
        self._late: set[int] = set()
        self._beats: dict[int, tuple[float, bytes]] = {}
        self._brought: dict[int, _Brought] = {}  # by the member that brought it: none replaces what another one said

    @property
    def is_gathering(self) -> bool:
        return self.interval_s > 0

    def assign(self, interval_s: float, limit_s: float, tickets: Mapping[int, int]) -> None:
        """These are the members from now on; former members are dismissed. An interval of 0 ends it all."""
        self.interval_s, self.limit_s = interval_s, limit_s
        self._tickets = dict(tickets)
        for member, line in list(self._lines.items()):
            if member not in self._tickets:
                self.leave(member, line)
                self._beats.pop(member, None)
                self._brought.pop(member, None)
                line.close()
        if not self.is_gathering:
            self.began_s = None
            self._beats.clear()
            self._brought.clear()

    def join(self, member: int, ticket: int, line: MemberLine) -> bool:
        """Whether the member belongs here; its former connection is closed."""
        if ticket == 0 or self._tickets.get(member) != ticket:
            return False
        former = self._lines.get(member)
        self._lines[member] = line
        if former is not None and former is not line:
            former.close()
        line.ask()
        return True

    def leave(self, member: int, line: MemberLine) -> None:
        """The connection is gone."""
        if self._lines.get(member) is line:
            del self._lines[member]
            self._awaited.discard(member)
            self._late.discard(member)

    def begin(self, now_s: float) -> None:
        """Asks everybody; in a round that is open, once more."""
        if self.began_s is None:
            self.began_s = now_s
            self._awaited = self._lines.keys() - self._late
        for line in list(self._lines.values()):
            line.ask()

    def answer(self, member: int, beat: bytes, now_s: float) -> None:
        if member in self._lines:
            self._beats[member] = (now_s, beat)
            self._settle(member)

    def bring(self, member: int, shares: list[GatheredShare], now_s: float) -> None:
        """A collector below has ended its round; what it brought before and was not sent yet is outdated."""
        if member not in self._lines:
            return
        brought = _Brought(now_s, [share for share in shares if share.is_sound])
        others = [each for name, each in self._brought.items() if name != member]
        has_room = sum(each.size for each in others) + brought.size <= MAX_BROUGHT_BYTES
        if has_room and sum(len(each.shares) for each in others) + len(brought.shares) < MAX_SHARES:
            self._brought[member] = brought
        self._settle(member)

    def _settle(self, member: int) -> None:
        self._awaited.discard(member)
        self._late.discard(member)

    def is_complete(self, now_s: float) -> bool:
        """Whether the open round is to be sent now."""
        return self.began_s is not None and (not self._awaited or now_s - self.began_s >= self.limit_s)

    def take(self, own: tuple[int, bytes] | None, now_s: float) -> list[GatheredShare]:
        """Ends the round: all that was gathered, with ages; `own` is this node's own number and heartbeat."""
        self.began_s = None
        self._late |= self._awaited
        self._awaited.clear()
        share = GatheredShare(self.name, [], [], [])
        rows = [(member, _age_ms(now_s, at_s), beat) for member, (at_s, beat) in self._beats.items()]
        if own is not None:
            rows.append((own[0], 0, own[1]))
        for member, age_ms, beat in rows:
            share.members.append(member)
            share.ages_ms.append(age_ms)
            share.beats.append(beat)
        shares = [share]
        for brought in self._brought.values():
            shares += (_older(each, now_s - brought.at_s) for each in brought.shares)
        self._beats.clear()
        self._brought.clear()
        return shares

    def close(self) -> None:
        """Ends it all."""
        self.assign(0.0, 0.0, {})
        self._late.clear()


class _Brought:
    """What one member brought in one message."""

    def __init__(self, at_s: float, shares: list[GatheredShare]) -> None:
        self.at_s = at_s
        self.shares = shares
        self.size = sum(len(beat) + _ROW_BYTES for share in shares for beat in share.beats)


def _age_ms(now_s: float, at_s: float) -> int:
    return min(_MAX_AGE_MS, max(0, int((now_s - at_s) * 1000)))


def _older(share: GatheredShare, by_s: float) -> GatheredShare:
    by_ms = _age_ms(by_s, 0.0)
    ages_ms = [min(_MAX_AGE_MS, age + by_ms) for age in share.ages_ms]
    return GatheredShare(share.collector, share.members, ages_ms, share.beats)
