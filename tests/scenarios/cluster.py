"""Scenarios of the state machine, and of a leader over it.

`cluster nodes=3` begins. Then any command by the tag of core/machine/commands.py with its fields (`by=ops` says whose it is),
and shorthands: `submit`, `dag`, `place a1 n1`, `started a1 n1`, `ended a1 n1 exit_code=1`, `pass 30`. `takeover` makes a fresh
leader, whose loops then look at the state by `look`, after `connect n1`, and each second of `pass 30 heard=n1`.
"""

from collections import Counter
from collections.abc import Sequence
from typing import get_args

import msgspec

from lattice.control.nodes.timers import NodeTimers, TimerSettings
from lattice.control.nodes.watch import NodeWatch
from lattice.control.work.deadlines import Deadlines
from lattice.control.work.dispatch import Dispatch, DispatchSettings
from lattice.control.work.scheduling import Scheduling, SchedulingSettings
from lattice.core.machine import commands as cmd
from lattice.core.machine.codec import decode_state_chunks, encode_state_chunks
from lattice.core.machine.events import AuditRecorded
from lattice.core.machine.outcomes import Outcome, Rejected
from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import Node, Share
from lattice.core.model.nodes.observations import Observations
from lattice.core.model.work.allocations import Allocation, Cause, PartPhase, TaskGroup
from lattice.core.model.work.dags import Dag
from lattice.testing import FakeLinks, FakeReplica, HandClock
from lattice.wire.work.payloads import Work, encode_work
from tests.scenarios.script import Malformed, Operation, Words
from tests.scenarios.wording import Wording
from tests.unit.core.machine.world import World

BEGAN_AT = 1_000_000
OF_THE_WORK = ("allocation_id", "account", "cwd", "argv", "submit_dir", "tasks")
COMMANDS = {kind.__struct_config__.tag: kind for kind in get_args(cmd.AnyCommand)}
Records = dict[tuple[str, int | str], Allocation | TaskGroup | Node | Dag]


class RecordingReplica(FakeReplica):
    """Keeps what was proposed together with what came of it."""

    def __init__(self, clock: HandClock, state: State) -> None:
        super().__init__(clock, state)
        self.outcomes: list[tuple[str, cmd.AnyCommand, Outcome]] = []

    async def propose(
        self, command: cmd.AnyCommand, *, actor: str, command_id: str = "", based_on: int | None = None
    ) -> Outcome:
        outcome = await super().propose(command, actor=actor, command_id=command_id, based_on=based_on)
        self.outcomes.append((actor, command, outcome))
        return outcome

    async def propose_many(
        self, commands: Sequence[cmd.AnyCommand], actor: str, *, based_on: int | None = None
    ) -> list[Outcome]:
        return [await self.propose(command, actor=actor) for command in commands]


class Leader:
    """The loops that decide about nodes and runs, over a replica and connections that are still to come."""

    def __init__(self, replica: RecordingReplica, clock: HandClock) -> None:
        self.links = FakeLinks()
        self.observations = Observations()
        self.clock = clock
        timers = NodeTimers(replica, TimerSettings(timeout_s=30, grace_s=60))
        self.watch = NodeWatch(replica, self.links, self.observations, clock, timers)
        self.deadlines = Deadlines(replica, clock)
        self.scheduling = Scheduling(replica, self.observations, clock, SchedulingSettings())
        self.dispatch = Dispatch(replica, self.links, clock, DispatchSettings(), lambda allocation: "")

    def connect(self, node: str) -> None:
        self.links.open.add(node)
        self.observations.join(node, self.clock.s)
        self.dispatch.node_opened(node)

    async def look(self) -> None:
        """One turn of every loop."""
        await self.watch.look()
        await self.deadlines.enforce_due()
        await self.scheduling.run_cycle()
        await self.dispatch.send_due()

    async def pass_s(self, seconds: int, heard: Sequence[str]) -> None:
        for _ in range(seconds):
            self.clock.pass_s(1)
            for node in heard:
                self.observations.touch(node, self.clock.s)
            await self.look()


class Cluster:
    """One scenario's world; `perform` carries out an operation and returns what is to be read."""

    def __init__(self, begin: Words) -> None:
        self._world = World(nodes=int(str(begin.take("nodes", 3))))
        self._clock = HandClock(ms=BEGAN_AT)
        self._replica = RecordingReplica(self._clock, self._world.state)
        self._leader: Leader | None = None
        self._wording = Wording(BEGAN_AT)

    async def perform(self, operation: Operation) -> str:
        before = self._records()
        self._replica.outcomes.clear()
        said = await self._do(operation)
        if operation.words.options:
            raise Malformed(f"{operation.text}: no such option: {', '.join(operation.words.options)}")
        is_own = len(self._replica.outcomes) == 1 and operation.words.name not in ("look", "pass", "connect")
        for actor, command, outcome in self._replica.outcomes:
            said += [] if is_own else [f"{actor} proposes {self._wording.line(command)}"]
            said += [("" if is_own else "  ") + line for line in self._outcome(outcome)]
        said += self._orders()
        changed = [record for key, record in self._records().items() if before.get(key) is not record]
        if operation.words.name not in ("cluster", "takeover"):
            said += [f"  -> {self._wording.record(record)}" for record in changed]
        return "\n".join(said) or "nothing to do"

    async def _do(self, operation: Operation) -> list[str]:
        words = operation.words
        match words.name:
            case "cluster":
                return [self._wording.record(node) for node in self._world.state.nodes.values()]
            case "takeover":
                return self._take_over()
            case "pass":
                return await self._pass(int(words.arguments[0]), words.names("heard"))
            case "connect" if self._leader is not None:
                self._leader.connect(words.arguments[0])
                await self._leader.look()
            case "look" if self._leader is not None:
                await self._leader.look()
            case _:
                actor = words.text("by", "ada")
                await self._replica.propose(self._command(operation), actor=actor)
        return []

    def _take_over(self) -> list[str]:
        """Another server, with the state from a snapshot and nothing else."""
        former = self._replica.state
        state = decode_state_chunks(encode_state_chunks(former.frozen_view()))
        self._replica = RecordingReplica(self._clock, state)
        self._world.state = state
        self._leader = Leader(self._replica, self._clock)
        is_same = state.digest() == former.digest()
        records = [record for record in self._records().values() if not isinstance(record, Node)]
        said = "the state is that of the former leader" if is_same else "THE STATE IS ANOTHER ONE"
        return [said, *(f"  -> {self._wording.record(record)}" for record in records)]

    async def _pass(self, seconds: int, heard: Sequence[str]) -> list[str]:
        if self._leader is None:
            self._clock.pass_s(seconds)
        else:
            await self._leader.pass_s(seconds, heard)
        return [f"now {(self._clock.ms - BEGAN_AT) / 1000:+g}s"]

    def _command(self, operation: Operation) -> cmd.AnyCommand:
        words = operation.words
        match words.name:
            case "submit":
                return self._submission(words)
            case "dag":
                members = tuple(self._member(line) for line in operation.lines)
                return cmd.SubmitDag(name="flow", user="ada", tenant="physics", members=members)
            case "place":
                number = _number(words.arguments[0])
                found = self._replica.state.find(number)
                run = (found.run if found is not None else 0) + 1
                shares = tuple(Share(node=node) for node in words.arguments[1:])
                return cmd.PlaceAllocation(number=number, run=run, shares=shares)
            case "grow":
                number, node = _number(words.arguments[0]), words.arguments[1]
                found = self._replica.state.find(number)
                return cmd.GrowAllocation(number=number, run=found.run if found else 0, share=Share(node=node))
            case "started" | "ended":
                return self._report(words)
            case tag if tag in COMMANDS:
                options = {k: _number(v) if k == "number" else v for k, v in words.rest().items()}
                command: cmd.AnyCommand = msgspec.convert(options, COMMANDS[tag])
                return command
            case _:
                raise Malformed(f"no such operation: {words.name}")

    def _submission(self, words: Words) -> cmd.SubmitAllocation:
        request = {"nodes": words.take("nodes", 1)}
        payload = encode_work(Work(argv=("true",), cwd="/tmp"))
        fields = {**msgspec.to_builtins(self._world.submission(payload=payload)), **words.rest(), "request": request}
        if "deadline_s" in fields:
            fields["deadline_at"] = self._clock.ms + 1000 * fields.pop("deadline_s")
        return msgspec.convert(fields, cmd.SubmitAllocation)

    def _member(self, words: Words) -> cmd.DagMember:
        """`build needs=fetch,test:failure`"""
        edges = [need.partition(":") for need in words.names("needs")]
        needs = tuple(
            (msgspec.convert({"ref": ref, "condition": condition or "success"}, cmd.Edge),)
            for ref, _, condition in edges
        )
        return cmd.DagMember(ref=words.name, submission=self._submission(words), needs=needs)

    def _report(self, words: Words) -> cmd.ReportPart:
        number, node = _number(words.arguments[0]), words.arguments[1]
        record = self._replica.state.find(number)
        is_end = words.name == "ended"
        fields: dict[str, object] = {
            "number": number,
            "node": node,
            "run": record.run if record is not None else 1,
            "seq": 2 if is_end else 1,
            "phase": (PartPhase.ENDED if is_end else PartPhase.RUNNING).value,
            **({"cause": Cause.EXIT.value} if is_end else {}),
            **words.rest(),
        }
        return msgspec.convert(fields, cmd.ReportPart)

    def _outcome(self, outcome: Outcome) -> list[str]:
        if isinstance(outcome, Rejected):
            return [self._wording.refusal(outcome)]
        events = [self._wording.line(event) for event in outcome.events if not isinstance(event, AuditRecorded)]
        return events or ["accepted, and nothing happened"]

    def _orders(self) -> list[str]:
        """What the leader sent; what it repeated is counted."""
        sent = self._leader.links.take() if self._leader is not None else []
        lines = Counter(f"order to {node}: {self._wording.line(order, leave=OF_THE_WORK)}" for node, order in sent)
        return [line if count == 1 else f"{line} ({count} times)" for line, count in lines.items()]

    def _records(self) -> Records:
        state = self._replica.state
        return {
            **{("allocation", number): record for number, record in state.allocations.items()},
            **{("group", number): record for number, record in state.groups.items()},
            **{("dag", number): record for number, record in state.dependencies.dags.items()},
            **{("node", name): record for name, record in state.nodes.items()},
        }


def _number(text: object) -> int:
    return int(str(text).removeprefix("a").removeprefix("d"))
