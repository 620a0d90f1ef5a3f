"""The fence of a step over its nodes: gives what this node's ranks put, gets what all put, and says who is missing when it takes too long.

`Alone` is for a step of one node, `Centre` for the first of several, `Spoke` for the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from lattice.agent.shim.loop import Loop, Timer, boot_now
from lattice.agent.shim.pmi.layout import ranks_text
from lattice.agent.shim.pmi.links import Head, Member
from lattice.agent.shim.pmi.star import (
    ASK,
    DONE,
    END,
    GIVE,
    LATE,
    MAX_TEXT,
    MISSING,
    BadFrame,
    Star,
    read_frame,
    read_ranks,
    write_frame,
    write_ranks,
)

# Only a type checker needs it: `typing` itself is a tenth of the memory that every fork of the shim copies.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol
else:
    Protocol = object

# How long the first node waits for an answer to "who is missing", and the others for its verdict.
ANSWER_S = 1.0
VERDICT_S = 3.0


class Local(Protocol):
    """What the exchange needs of the service of its node."""

    def missing(self) -> list[int]:
        """Its ranks that are not in the fence."""
        ...

    def began(self) -> None:
        """Another node is in the fence: this one's time runs as well."""
        ...

    def done(self, result: bytes) -> None: ...

    def fail(self, text: str) -> None: ...


class Alone:
    """One node: what it gives is the result."""

    def __init__(self, local: Local, node: str) -> None:
        self._local = local
        self._node = node

    def met(self) -> None:
        return

    def give(self, _kind: str, blob: bytes) -> None:
        self._local.done(blob)

    def awaited(self) -> set[int]:
        """Places of other nodes that the open fence waits for, as far as it is known here."""
        return set()

    def late(self) -> None:
        self._local.fail(f"PMI fence timeout: waited for {ranks_text(self._local.missing())} on {self._node}")

    def end(self, text: str) -> None:
        """Tell the other nodes that the step is over."""


class Closed:
    """The first node where no port is free: a step without MPI does not mind."""

    def __init__(self, local: Local, why: str) -> None:
        self._local = local
        self._why = why

    def met(self) -> None:
        return

    def give(self, _kind: str, _blob: bytes) -> None:
        self._local.fail(self._why)

    def awaited(self) -> set[int]:
        return set()

    def late(self) -> None:
        self._local.fail(self._why)

    def end(self, text: str) -> None:
        """No other node is connected."""


class Centre:
    def __init__(
        self, local: Local, loop: Loop, key: bytes, host: str, nodes: Sequence[str], node_ranks: Sequence[Sequence[int]]
    ) -> None:
        self._local = local
        self._loop = loop
        self._node_ranks = node_ranks
        self._star = Star(nodes, node_ranks)
        self._end = ""
        self._timer: Timer | None = None
        self._head = Head(loop, key, host, len(nodes), self._received)

    def met(self) -> None:
        return

    def give(self, kind: str, blob: bytes) -> None:
        self._gave(0, self._star.number, kind.encode() + blob)

    def awaited(self) -> set[int]:
        return set(self._star.missing()) - {0}

    def late(self) -> None:
        """The time of a node is over: ask the nodes that gave nothing which ranks they wait for."""
        if self._timer is not None:
            return
        self._star.tell(0, self._local.missing())
        for place in self._star.missing():
            self._head.send(place, write_frame(ASK, self._star.number))
        self._timer = self._loop.call_at(boot_now() + ANSWER_S, self._judge)
        self._judge_if_explained()

    def end(self, text: str) -> None:
        self._end = text[:MAX_TEXT]
        for place in range(1, len(self._node_ranks)):
            self._head.send(place, write_frame(END, 0, self._end.encode()))

    def _judge_if_explained(self) -> None:
        if self._timer is not None and self._star.is_explained:
            self._timer.cancel()
            self._judge()

    def _judge(self) -> None:
        self._timer = None
        if self._star.missing():
            self._local.fail(self._star.verdict())

    def _received(self, place: int, content: bytes) -> None:
        try:
            kind, number, body = read_frame(content)
            if self._end:
                self._head.send(place, write_frame(END, 0, self._end.encode()))
            elif kind == GIVE and number == self._star.number - 1:
                # It has not got the result before its connection broke.
                self._head.send(place, write_frame(DONE, number, self._star.result))
            elif kind == GIVE:
                self._gave(place, number, body)
            elif kind in (LATE, MISSING):
                if number == self._star.number:
                    self._star.tell(place, read_ranks(body, self._node_ranks[place]))
                    if kind == LATE:
                        self.late()
                    self._judge_if_explained()
            elif kind == END:
                self._local.fail(body[:MAX_TEXT].decode("utf-8", "replace"))
        except BadFrame as problem:
            self._local.fail(f"PMI: {problem}")

    def _gave(self, place: int, number: int, body: bytes) -> None:
        if not self._star.give(place, number, body):
            self._local.began()
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for other in range(1, len(self._node_ranks)):
            self._head.send(other, write_frame(DONE, number, self._star.result))
        self._local.done(self._star.result)


class Spoke:
    def __init__(self, local: Local, loop: Loop, key: bytes, host: str, place: int, nodes: Sequence[str]) -> None:
        self._local = local
        self._loop = loop
        self._nodes = nodes
        self._place = place
        self._number = 1
        self._given = b""  # this node's part of the open fence
        self._end = ""
        self._member = Member(loop, key, host, place, self._received, self._opened)

    def met(self) -> None:
        """A rank spoke: a fence will follow."""
        self._member.connect()

    def give(self, kind: str, blob: bytes) -> None:
        self._given = write_frame(GIVE, self._number, kind.encode() + blob)
        self._member.connect()
        self._member.send(self._given)

    def awaited(self) -> set[int]:
        """The first node knows the rest."""
        return {0}

    def late(self) -> None:
        """Tell the first node, which knows more; without its answer say what is known here."""
        self._member.connect()
        self._member.send(write_frame(LATE, self._number, write_ranks(self._local.missing())))
        self._loop.call_at(boot_now() + VERDICT_S, self._judge)

    def end(self, text: str) -> None:
        self._end = text
        self._member.send(write_frame(END, 0, text.encode()[:MAX_TEXT]))

    def _judge(self) -> None:
        missing = self._local.missing()
        who = f"{ranks_text(missing)} on {self._nodes[self._place]}" if missing else f"node {self._nodes[0]}"
        self._local.fail(f"PMI fence timeout: waited for {who}")

    def _opened(self) -> None:
        if self._end:
            self.end(self._end)
        elif self._given:
            self._member.send(self._given)

    def _received(self, content: bytes) -> None:
        try:
            kind, number, body = read_frame(content)
        except BadFrame:
            return
        if kind == DONE and number == self._number and self._given:
            self._number += 1
            self._given = b""
            self._local.done(body)
        elif kind == ASK and number == self._number:
            self._member.send(write_frame(MISSING, number, write_ranks(self._local.missing())))
        elif kind == END:
            self._local.fail(body[:MAX_TEXT].decode("utf-8", "replace"))


Exchange = Alone | Closed | Centre | Spoke
