"""The ranks of a step on one node, as its service knows them: which protocol they speak, what they asked, who waits for whom.

No I/O: `receive` and `closed` say what came from a rank, answers gather in `outputs`, and `events` tells what the rest has to do.
The first line of a rank decides between PMI-1 and PMI-2; all ranks of a step speak the same one. A rank is never waited for: what it
asks is answered immediately, except a fence, and an attribute of the node that it wants to wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lattice.agent.shim.pmi.layout import process_mapping, ranks_text
from lattice.agent.shim.pmi.pmi1_wire import Pmi1Wire, read_line
from lattice.agent.shim.pmi.pmi2_wire import Pmi2Wire
from lattice.agent.shim.pmi.requests import MAX_KEY, MAX_NAME, MAX_VALUE, BadRank, Fields, Request, decoded, shown
from lattice.agent.shim.pmi.space import KeySpace

PMI1, PMI2 = Pmi1Wire.kind, Pmi2Wire.kind
PMIX = "pmix"  # spoken to libpmix, in a process of its own
KINDS = (PMI1, PMI2, PMIX)
NAMES = {PMI1: "PMI-1", PMI2: "PMI-2", PMIX: "PMIx"}
MAX_FIRST_LINE = 1024
MAX_ATTRIBUTES = 4096
MAPPING = "PMI_process_mapping"

Wire = Pmi1Wire | Pmi2Wire


class Aborted:
    """A rank asks for the end of the step."""

    __slots__ = ("code", "rank")

    def __init__(self, rank: int, code: int) -> None:
        self.rank = rank
        self.code = code


class Session:
    """One rank. `wire` is None until its first line is complete."""

    __slots__ = ("first_line", "has_ended", "has_finalized", "has_pmix", "in_fence", "output", "rank", "thread", "wire")

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.wire: Wire | None = None
        self.first_line = bytearray()
        self.output = bytearray()
        self.has_pmix = False  # it has connected to the PMIx server
        self.in_fence = False
        self.has_finalized = False
        self.has_ended = False  # its end of the socket is closed
        self.thread = ""  # PMI-2: which thread of the rank waits for the fence

    @property
    def has_spoken(self) -> bool:
        return self.wire is not None or self.has_pmix

    @property
    def can_come(self) -> bool:
        """Whether it may still enter a fence."""
        return not (self.has_ended or self.has_finalized)


class LocalRanks:
    """`node_ranks` are the ranks of every node of the step, `place` this node's; `kinds` what is offered here."""

    def __init__(
        self, name: str, node_ranks: Sequence[Sequence[int]], place: int, kinds: Sequence[str] = KINDS
    ) -> None:
        self._name = name
        self._kinds = kinds
        self.size = sum(map(len, node_ranks))
        self.sessions = {rank: Session(rank) for rank in node_ranks[place]}
        self.space = KeySpace()
        self.kind = ""  # what the ranks speak, known with the first of them
        self.met = 0  # ranks that spoke
        self.aborted: Aborted | None = None
        self.wanted_spawn = False  # a rank asked for further processes, and was refused
        self._waits = 0  # ranks in the fence
        self._mapping = process_mapping(node_ranks)
        self._attributes: dict[str, str] = {}
        self._wanted: dict[str, list[tuple[Session, str]]] = {}

    # What ranks do.

    def receive(self, rank: int, data: bytes) -> None:
        """Bytes of a rank. Raises BadRank."""
        session = self.sessions[rank]
        if session.wire is None:
            data = self._begin(session, data)
        if session.wire is not None:
            for request in session.wire.take(data):
                self._obey(session, session.wire, request)

    def meet_pmix(self, rank: int) -> None:
        """The rank has connected to the PMIx server. Raises BadRank."""
        session = self.sessions.get(rank)
        if session is not None and not session.has_pmix:
            self._agree(session, PMIX)
            session.has_pmix = True
            self.met += 1

    def enter_all(self) -> None:
        """The PMIx server has all its ranks in the fence."""
        for session in self.sessions.values():
            session.in_fence = True
        self._waits = len(self.sessions)

    def closed(self, rank: int) -> None:
        """The rank is gone, or has closed its end."""
        self.sessions[rank].has_ended = True

    @property
    def is_waiting(self) -> bool:
        """Whether a fence has begun here."""
        return self._waits > 0

    @property
    def is_full(self) -> bool:
        """Whether all ranks are in the fence."""
        return self._waits == len(self.sessions)

    def missing(self) -> list[int]:
        """The ranks that are not in the fence."""
        return [rank for rank, session in self.sessions.items() if not session.in_fence]

    def gone(self) -> list[int]:
        """Those of them that will never come."""
        return [rank for rank, session in self.sessions.items() if not session.in_fence and not session.can_come]

    def release(self) -> None:
        """The fence is complete."""
        self._waits = 0
        for session in self.sessions.values():
            if session.in_fence:
                session.in_fence = False
                if self.kind == PMI1:
                    self._answer(session, "barrier_out", {})
                else:
                    self._answer(session, "kvs-fence-response", {"thrid": session.thread, "rc": "0"})

    # The first line.

    def _begin(self, session: Session, data: bytes) -> bytes:
        """Read the first line; what follows it."""
        session.first_line += data
        line, newline, rest = bytes(session.first_line).partition(b"\n")
        if len(line) > MAX_FIRST_LINE:
            raise BadRank(f"began with {MAX_FIRST_LINE:,} bytes that are not PMI")
        if not newline:
            return b""
        request = read_line(decoded(line))
        version = request.number("pmi_version", 0)
        if request.name != "init" or version not in (1, 2):
            raise BadRank(f'began with "{shown(decoded(line))}", which is neither PMI-1 nor PMI-2')
        self._agree(session, PMI1 if version == 1 else PMI2)
        session.first_line.clear()
        session.wire = Pmi1Wire() if version == 1 else Pmi2Wire()
        self.met += 1
        subversion = 1 if version == 1 else 0
        versions = {"pmi_version": str(version), "pmi_subversion": str(subversion), "rc": "0"}
        session.output += Pmi1Wire.answer("response_to_init", versions)
        return rest

    def _agree(self, session: Session, kind: str) -> None:
        if kind not in self._kinds:
            raise BadRank(
                f"speaks {NAMES[kind]}; the step was launched with --pmi={','.join(self._kinds)}: leave that out"
            )
        if self.kind and kind != self.kind:
            others = [each.rank for each in self.sessions.values() if each.has_spoken]
            raise BadRank(f"speaks {NAMES[kind]}, but {ranks_text(others)} {NAMES[self.kind]}")
        self.kind = kind

    # Requests.

    def _obey(self, session: Session, wire: Wire, request: Request) -> None:
        if session.has_finalized:
            raise BadRank(f"sent {shown(request.name)} after finalize")
        if session.in_fence and request.name != "abort":
            raise BadRank(f"sent {shown(request.name)} while it was in a fence")
        table = _PMI1 if isinstance(wire, Pmi1Wire) else _PMI2
        action = table.get(request.name)
        if action is not None:
            action(self, session, request)
        elif isinstance(wire, Pmi2Wire):
            self.wanted_spawn |= request.name == "spawn"
            self._answer2(session, request, {"rc": "1", "errmsg": "not supported"})
        else:
            raise BadRank(f'sent the request "{shown(request.name)}", which is not supported')

    @staticmethod
    def _answer(session: Session, name: str, fields: Fields) -> None:
        if session.wire is not None:
            kept = {key: value for key, value in fields.items() if value or key != "thrid"}
            session.output += session.wire.answer(name, kept)

    def _answer2(self, session: Session, request: Request, fields: Fields) -> None:
        thread = request.fields.get("thrid", "")
        self._answer(session, f"{request.name}-response", {"thrid": thread, **fields})

    def _enter(self, session: Session, request: Request) -> None:
        session.in_fence = True
        session.thread = request.fields.get("thrid", "")
        self._waits += 1

    def _finalize(self, session: Session, request: Request) -> None:
        session.has_finalized = True
        if self.kind == PMI1:
            self._answer(session, "finalize_ack", {})
        else:
            self._answer2(session, request, {"rc": "0"})

    def _abort(self, session: Session, request: Request) -> None:
        """The process ends by itself next; no answer is expected."""
        if self.aborted is None:
            self.aborted = Aborted(session.rank, request.number("exitcode", 1) & 0xFF)

    def _put(self, session: Session, request: Request) -> None:
        self.space.put(session.rank, request.text("key", MAX_KEY), request.text("value", MAX_VALUE))
        if self.kind == PMI1:
            self._answer(session, "put_result", {"rc": "0", "msg": "success"})
        else:
            self._answer2(session, request, {"rc": "0"})

    # PMI-1.

    def _get1(self, session: Session, request: Request) -> None:
        value = self._value(request.text("key", MAX_KEY))
        if value is None:
            self._answer(session, "get_result", {"rc": "-1", "msg": "key_not_found", "value": "unknown"})
        else:
            self._answer(session, "get_result", {"rc": "0", "msg": "success", "value": value})

    def _value(self, key: str) -> str | None:
        return (self._mapping or None) if key == MAPPING else self.space.get(key)

    def _maxes(self, session: Session, _request: Request) -> None:
        most = {"kvsname_max": str(MAX_NAME), "keylen_max": str(MAX_KEY), "vallen_max": str(MAX_VALUE)}
        self._answer(session, "maxes", most)

    def _appnum(self, session: Session, _request: Request) -> None:
        self._answer(session, "appnum", {"appnum": "0"})

    def _kvsname(self, session: Session, _request: Request) -> None:
        self._answer(session, "my_kvsname", {"kvsname": self._name})

    def _universe(self, session: Session, _request: Request) -> None:
        self._answer(session, "universe_size", {"size": str(self.size)})

    def _refuse(self, name: str, session: Session, _request: Request) -> None:
        """Spawn and the name service: answered, so that the library can say that it is not possible."""
        self.wanted_spawn |= name == "spawn_result"
        self._answer(session, name, {"rc": "-1", "msg": "not_supported"})

    # PMI-2.

    def _fullinit(self, session: Session, request: Request) -> None:
        self._answer2(
            session,
            request,
            {
                "pmi-version": "2",
                "pmi-subversion": "0",
                "rank": str(session.rank),
                "size": str(self.size),
                "appnum": "0",
                "debugged": "FALSE",
                "pmiverbose": "FALSE",
                "rc": "0",
            },
        )

    def _name_of_step(self, session: Session, request: Request) -> None:
        self._answer2(session, request, {"jobid": self._name, "rc": "0"})

    def _get2(self, session: Session, request: Request) -> None:
        self._found(session, request, self._value(request.text("key", MAX_KEY)))

    def _found(self, session: Session, request: Request, value: str | None) -> None:
        found = {"found": "FALSE"} if value is None else {"found": "TRUE", "value": value}
        self._answer2(session, request, {**found, "rc": "0"})

    def _world_attribute(self, session: Session, request: Request) -> None:
        key = request.text("key", MAX_KEY)
        self._found(session, request, str(self.size) if key == "universeSize" else self._value(key))

    def _put_attribute(self, session: Session, request: Request) -> None:
        key = request.text("key", MAX_KEY)
        if len(self._attributes) >= MAX_ATTRIBUTES:
            raise BadRank(f"put more than {MAX_ATTRIBUTES:,} attributes of the node")
        self._attributes[key] = request.text("value", MAX_VALUE)
        self._answer2(session, request, {"rc": "0"})
        for waiting, thread in self._wanted.pop(key, []):
            self._found(waiting, Request("info-getnodeattr", {"thrid": thread}), self._attributes[key])

    def _get_attribute(self, session: Session, request: Request) -> None:
        key = request.text("key", MAX_KEY)
        if key in self._attributes or request.fields.get("wait", "").upper() != "TRUE":
            self._found(session, request, self._attributes.get(key))
            return
        waiting = self._wanted.setdefault(key, [])
        if len(waiting) >= MAX_ATTRIBUTES or len(self._wanted) > MAX_ATTRIBUTES:
            raise BadRank(f"waits for more than {MAX_ATTRIBUTES:,} attributes of the node")
        waiting.append((session, request.fields.get("thrid", "")))


_Action = Callable[[LocalRanks, Session, Request], None]


def _refusal(name: str) -> _Action:
    return lambda ranks, session, request: ranks._refuse(name, session, request)


_PMI1: dict[str, _Action] = {
    "get_maxes": LocalRanks._maxes,
    "get_appnum": LocalRanks._appnum,
    "get_my_kvsname": LocalRanks._kvsname,
    "get_universe_size": LocalRanks._universe,
    "put": LocalRanks._put,
    "get": LocalRanks._get1,
    "barrier_in": LocalRanks._enter,
    "finalize": LocalRanks._finalize,
    "abort": LocalRanks._abort,
    "spawn": _refusal("spawn_result"),
    "publish_name": _refusal("publish_result"),
    "unpublish_name": _refusal("unpublish_result"),
    "lookup_name": _refusal("lookup_result"),
}
_PMI2: dict[str, _Action] = {
    "fullinit": LocalRanks._fullinit,
    "job-getid": LocalRanks._name_of_step,
    "kvs-put": LocalRanks._put,
    "kvs-get": LocalRanks._get2,
    "kvs-fence": LocalRanks._enter,
    "info-getjobattr": LocalRanks._world_attribute,
    "info-putnodeattr": LocalRanks._put_attribute,
    "info-getnodeattr": LocalRanks._get_attribute,
    "finalize": LocalRanks._finalize,
    "abort": LocalRanks._abort,
}
