"""The fence of a step over its nodes: gives what this node's ranks put, gets what all put, and says who is missing when it takes too long.

`Alone` is for a step of one node, `Centre` for the first of several, `Spoke` for a node that only gives, and `Branch` for a node of a
large step to which others give, and which gives to the first.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from lattice.agent.shim.loop import Loop, Timer, boot_now
from lattice.agent.shim.pmi import seal
from lattice.agent.shim.pmi.layout import ranks_text
from lattice.agent.shim.pmi.links import Head, Member, listen
from lattice.agent.shim.pmi.plan import PmiPlan
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

# How long a node waits for an answer to "who is missing", the first one of a tree, and the others for its verdict.
ANSWER_S = 1.0
TREE_ANSWER_S = 2.5
VERDICT_S = 3.0
TREE_VERDICT_S = 6.0
KIND_BYTES = 4


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

    def close(self) -> None:
        return


class Closed:
    """A node to which others would give where no port is free: a step without MPI does not mind."""

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

    def close(self) -> None:
        return


class _Gathering:
    """What other nodes give to this one, with its own: a star, and the questions to those that are late. `gathered` is called with the
    number of a fence when all have given, `explained` when it is known who is missing, or that it will not be known, `began` when a
    node gave."""

    def __init__(
        self,
        local: Local,
        loop: Loop,
        plan: PmiPlan,
        answer_s: float,
        gathered: Callable[[int], None],
        explained: Callable[[], None],
        began: Callable[[], None],
        listener: socket.socket | None,
    ) -> None:
        self._local = local
        self._loop = loop
        self._veil, self._place = plan.veil, plan.place
        self._answer_s = answer_s
        self._gathered, self._explained, self._began = gathered, explained, began
        self._result = b""  # of the last fence, hidden
        self._done = 0  # its number
        self._end = ""
        self._timer: Timer | None = None
        self.star = Star(plan.nodes, plan.node_ranks, plan.tree.below(plan.place))
        self._members = [place for place in self.star.below if place != plan.place]
        self._head = Head(loop, _key_of(plan), listener or _listen(plan), frozenset(self._members), self._received)

    def give(self, kind: str, blob: bytes) -> None:
        try:
            self._gave(self._place, self.star.number, kind, blob)
        except BadFrame as problem:
            self._local.fail(f"PMI: {problem}")

    def publish(self, number: int, result: bytes, hidden: bytes) -> None:
        """The fence has this result."""
        self._done, self._result = number, hidden
        frame = write_frame(DONE, number, hidden)
        summary = seal.summary_of(frame)
        for other in self._members:
            self._head.send(other, frame, summary)
        self._local.done(result)

    def ask(self) -> None:
        """The time of a node is over: ask the members that gave nothing which ranks they wait for."""
        if self._timer is not None:
            return
        self.star.tell(self._place, self._local.missing())
        for place in self.star.missing():
            self._head.send(place, write_frame(ASK, self.star.number))
        self._timer = self._loop.call_at(boot_now() + self._answer_s, self._answered)
        self._answer_if_explained()

    def end(self, text: str) -> None:
        self._end = text[:MAX_TEXT]
        for place in self._members:
            self._head.send(place, write_frame(END, 0, self._end.encode()))

    def close(self) -> None:
        self._head.close()

    def _answer_if_explained(self) -> None:
        if self._timer is not None and self.star.is_explained:
            self._timer.cancel()
            self._answered()

    def _answered(self) -> None:
        self._timer = None
        if self.star.missing():
            self._explained()

    def _received(self, place: int, content: bytes) -> None:
        try:
            kind, number, body = read_frame(content)
            if self._end:
                self._head.send(place, write_frame(END, 0, self._end.encode()))
            elif kind == GIVE and number == self._done:
                # It has not got the result before its connection broke.
                self._head.send(place, write_frame(DONE, number, self._result))
            elif kind == GIVE:
                blob = self._veil.turn(GIVE, place, number, body[KIND_BYTES:])
                self._gave(place, number, body[:KIND_BYTES].decode("ascii", "replace"), blob)
            elif kind in (LATE, MISSING):
                if number == self.star.number:
                    self.star.tell(place, read_ranks(body, self.star.ranks_below(place)))
                    if kind == LATE:
                        self.ask()
                    self._answer_if_explained()
            elif kind == END:
                self._local.fail(body[:MAX_TEXT].decode("utf-8", "replace"))
        except BadFrame as problem:
            self._local.fail(f"PMI: {problem}")

    def _gave(self, place: int, number: int, kind: str, blob: bytes) -> None:
        if not self.star.give(place, number, kind, blob):
            self._began()
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._gathered(number)


class _Giving:
    """This node's part of fences, on the way to the node that it gives to. `got` is called with the number of a fence, its result, and
    the result hidden; `asked` when that node wants to know who is missing; `ended` when the step is over; `judge` when no verdict came."""

    def __init__(
        self,
        loop: Loop,
        plan: PmiPlan,
        got: Callable[[int, bytes, bytes], None],
        asked: Callable[[], None],
        ended: Callable[[str], None],
        judge: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._veil, self._place = plan.veil, plan.place
        self._got, self._asked, self._ended, self._judge = got, asked, ended, judge
        self._verdict_s = VERDICT_S if plan.tree.is_star else TREE_VERDICT_S
        self._verdict: Timer | None = None
        self._given = b""
        self._end = ""
        self.number = 1
        parent = plan.tree.parent(plan.place)
        self.parent = plan.nodes[parent]
        key = seal.key_of_head(plan.key, parent) if parent else plan.key
        self._member = Member(loop, key, plan.hosts[parent], plan.place, self._received, self._opened)

    def connect(self) -> None:
        self._member.connect()

    def give(self, kind: str, blob: bytes) -> None:
        hidden = self._veil.turn(GIVE, self._place, self.number, blob)
        self._given = write_frame(GIVE, self.number, kind.encode() + hidden)
        self._member.connect()
        self._member.send(self._given)

    def tell(self, kind: bytes, ranks: list[int]) -> None:
        self._member.connect()
        self._member.send(write_frame(kind, self.number, write_ranks(ranks)))

    def await_verdict(self) -> None:
        if self._verdict is None:
            self._verdict = self._loop.call_at(boot_now() + self._verdict_s, self._judge)

    def end(self, text: str) -> None:
        self._end = text
        self._member.send(write_frame(END, 0, text.encode()[:MAX_TEXT]))

    def close(self) -> None:
        self._member.close()

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
        if kind == DONE and number == self.number and self._given:
            self.number += 1
            self._given = b""
            if self._verdict is not None:
                self._verdict.cancel()
                self._verdict = None
            self._got(number, self._veil.turn(DONE, 0, number, body), body)
        elif kind == ASK and number == self.number:
            self._asked()
        elif kind == END:
            self._ended(body[:MAX_TEXT].decode("utf-8", "replace"))


class Centre:
    """The first node: what it gathers is the result."""

    def __init__(self, local: Local, loop: Loop, plan: PmiPlan, listener: socket.socket | None) -> None:
        self._local = local
        self._veil = plan.veil
        answer_s = ANSWER_S if plan.tree.is_star else TREE_ANSWER_S
        self._gathering = _Gathering(local, loop, plan, answer_s, self._publish, self._judge, local.began, listener)
        self._star = self._gathering.star

    def met(self) -> None:
        return

    def give(self, kind: str, blob: bytes) -> None:
        self._gathering.give(kind, blob)

    def awaited(self) -> set[int]:
        return self._star.awaited() - {0}

    def late(self) -> None:
        self._gathering.ask()

    def end(self, text: str) -> None:
        self._gathering.end(text)

    def close(self) -> None:
        self._gathering.close()

    def _publish(self, number: int) -> None:
        result = self._star.sum
        self._gathering.publish(number, result, self._veil.turn(DONE, 0, number, result))

    def _judge(self) -> None:
        self._local.fail(self._star.verdict())


class Spoke:
    """A node that gives to another one, and to which none gives."""

    def __init__(self, local: Local, loop: Loop, plan: PmiPlan) -> None:
        self._local = local
        self._node = plan.node
        self._giving = _Giving(loop, plan, self._got, self._asked, local.fail, self._judge)

    def met(self) -> None:
        """A rank spoke: a fence will follow."""
        self._giving.connect()

    def give(self, kind: str, blob: bytes) -> None:
        self._giving.give(kind, blob)

    def awaited(self) -> set[int]:
        """The first node knows the rest."""
        return {0}

    def late(self) -> None:
        """Tell the node above, which knows more; without its answer say what is known here."""
        self._giving.tell(LATE, self._local.missing())
        self._giving.await_verdict()

    def end(self, text: str) -> None:
        self._giving.end(text)

    def close(self) -> None:
        self._giving.close()

    def _got(self, _number: int, result: bytes, _hidden: bytes) -> None:
        self._local.done(result)

    def _asked(self) -> None:
        self._giving.tell(MISSING, self._local.missing())

    def _judge(self) -> None:
        missing = self._local.missing()
        who = f"{ranks_text(missing)} on {self._node}" if missing else f"node {self._giving.parent}"
        self._local.fail(f"PMI fence timeout: waited for {who}")


class Branch:
    """The head of a branch: gives the sum of its members to the first node, and passes the result on."""

    def __init__(self, local: Local, loop: Loop, plan: PmiPlan, listener: socket.socket | None) -> None:
        self._local = local
        self._gathering = _Gathering(local, loop, plan, ANSWER_S, self._pass_up, self._explain, self._began, listener)
        self._star = self._gathering.star
        self._giving = _Giving(loop, plan, self._gathering.publish, self._asked, local.fail, self._judge)
        self._place = plan.place

    def met(self) -> None:
        self._giving.connect()

    def give(self, kind: str, blob: bytes) -> None:
        self._gathering.give(kind, blob)

    def awaited(self) -> set[int]:
        return (self._star.awaited() - {self._place}) | {0}

    def late(self) -> None:
        self._giving.await_verdict()
        if self._has_given:
            self._giving.tell(LATE, [])
        else:
            self._gathering.ask()

    def end(self, text: str) -> None:
        self._gathering.end(text)
        self._giving.end(text)

    def close(self) -> None:
        self._gathering.close()
        self._giving.close()

    @property
    def _has_given(self) -> bool:
        """Whether all below have given, and the branch waits for the others."""
        return self._star.number > self._giving.number

    def _began(self) -> None:
        """The first node will have a question, or a verdict."""
        self._giving.connect()
        self._local.began()

    def _pass_up(self, _number: int) -> None:
        self._giving.give(self._star.kind, self._star.sum)

    def _asked(self) -> None:
        if not self._has_given:
            self._gathering.ask()

    def _explain(self) -> None:
        """The first node takes it for a question of its own, unless it asked itself."""
        self._giving.tell(LATE, self._star.missing_ranks())

    def _judge(self) -> None:
        text = f"PMI fence timeout: waited for node {self._giving.parent}"
        self._local.fail(text if self._has_given else self._star.verdict())


Exchange = Alone | Closed | Centre | Spoke | Branch


def make_exchange(local: Local, loop: Loop, plan: PmiPlan, listener: socket.socket | None = None) -> Exchange:
    """This node's side of the step's fences; `listener` is where others reach it, if that is open already."""
    if len(plan.nodes) == 1:
        return Alone(local, plan.node)
    try:
        if plan.place == 0:
            return Centre(local, loop, plan, listener)
        return Branch(local, loop, plan, listener) if plan.tree.is_head(plan.place) else Spoke(local, loop, plan)
    except OSError as error:
        return Closed(local, f"PMI: node {plan.node} cannot listen for the other nodes: {error.strerror or error}")


def listen_for_nodes(plan: PmiPlan) -> socket.socket | None:
    """Where the other nodes of the step reach this one; None where none does, or no port is free."""
    if len(plan.nodes) == 1 or (plan.place and not plan.tree.is_head(plan.place)):
        return None
    try:
        return _listen(plan)
    except OSError:
        return None  # the service tries it again, and says so when it matters


def _listen(plan: PmiPlan) -> socket.socket:
    return listen(plan.hosts[plan.place], seal.ports(_key_of(plan)))


def _key_of(plan: PmiPlan) -> bytes:
    """What nodes prove to know that give to this one."""
    return seal.key_of_head(plan.key, plan.place) if plan.place else plan.key
