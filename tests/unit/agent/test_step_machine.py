"""Any order of events: a server, a shim and a network that do what they like to one agent."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from lattice.agent.machine.decide import step
from lattice.agent.machine.state import (
    Acknowledged,
    AgentState,
    Connected,
    Disconnected,
    End,
    Instruction,
    LaunchRun,
    OutputSettled,
    RunEnded,
    RunRefused,
    RunStarted,
    SendConfirmed,
    SendReport,
    SettleOutput,
    ShimLost,
    ShimReady,
    StartShim,
    Stimulus,
    Tick,
    Welcomed,
)
from lattice.ports.nodes.agents import EndCause, Greeting, Phase, Report, RunKey, StartOrder, StopOrder, UpdateOrder

KEYS = st.builds(RunKey, st.integers(1, 3), st.integers(1, 4))


class AgentMachine(RuleBasedStateMachine):
    """The model knows what the outside saw: processes, reports and confirmations."""

    def __init__(self) -> None:
        super().__init__()
        self.state = AgentState()
        self.now_s = 100.0
        self.launching: list[RunKey] = []
        self.processes: set[RunKey] = set()
        self.unsettled: list[RunKey] = []
        self.launched_ever: set[RunKey] = set()
        self.accepted: set[RunKey] = set()
        self.ends: dict[RunKey, Report] = {}
        self.acknowledged: set[RunKey] = set()
        self.connected = False
        self.welcomed = False
        self.shim_alive = False
        self.valid: frozenset[RunKey] = frozenset()
        self.session = 0
        self.repeated: set[RunKey] = set()

    @initialize()
    def shim_comes_up(self) -> None:
        self.shim_returns()

    def feed(self, stimulus: Stimulus) -> list[Instruction]:
        instructions = step(self.state, stimulus)
        for instruction in instructions:
            self.perform(instruction)
        return instructions

    def perform(self, instruction: Instruction) -> None:
        match instruction:
            case LaunchRun(order=order):
                self.check_launch(order.key)
            case SettleOutput(key=key):
                self.unsettled.append(key)
            case SendReport(report=report) if report.phase is Phase.ENDED:
                self.check_end(report)
            case SendReport(report=report):
                assert report.key in self.launched_ever
            case SendConfirmed(session=session):
                assert session == self.session
                assert all(key in self.valid for key in self.processes | set(self.launching))
            case StartShim():
                assert not self.shim_alive
            case _:
                pass

    def check_launch(self, key: RunKey) -> None:
        assert self.shim_alive
        rivals = [k for k in self.processes | set(self.launching) if k.number == key.number]
        assert not rivals, f"{key} was launched beside {rivals}"
        assert all(k.run < key.run for k in self.launched_ever if k.number == key.number)
        self.launched_ever.add(key)
        self.launching.append(key)

    def check_end(self, end: Report) -> None:
        key = end.key
        assert end.cause is not None
        assert self.welcomed
        assert key not in self.processes
        assert key not in self.launching
        if key in self.accepted:
            assert self.ends.setdefault(key, end) == end, "a run has one end"

    @precondition(lambda self: self.welcomed)
    @rule(key=KEYS)
    def server_starts(self, key: RunKey) -> None:
        self.valid |= {key}
        self.feed(StartOrder(key=key, fence=key.number == 3))
        if key in self.state.runs:
            self.accepted.add(key)

    @precondition(lambda self: self.welcomed)
    @rule(key=KEYS, grace_s=st.sampled_from([0.0, 30.0]))
    def server_stops(self, key: RunKey, grace_s: float) -> None:
        self.feed(StopOrder(key=key, grace_s=grace_s, why="cancelled"))
        if key in self.state.runs:
            self.accepted.add(key)

    @precondition(lambda self: self.welcomed)
    @rule(key=KEYS)
    def server_updates(self, key: RunKey) -> None:
        self.feed(UpdateOrder(key=key, walltime_s=5.0))

    @precondition(lambda self: self.launching and self.shim_alive)
    @rule(data=st.data(), refused=st.booleans())
    def launch_is_answered(self, data: st.DataObject, refused: bool) -> None:
        key = data.draw(st.sampled_from(self.launching))
        self.launching.remove(key)
        if refused:
            self.feed(RunRefused(key=key, message="no account"))
            return
        self.processes.add(key)
        self.feed(RunStarted(key=key, started_boot_s=self.now_s))

    @precondition(lambda self: self.processes and self.shim_alive)
    @rule(data=st.data(), code=st.integers(0, 3))
    def process_ends(self, data: st.DataObject, code: int) -> None:
        key = data.draw(st.sampled_from(sorted(self.processes)))
        self.processes.remove(key)
        self.feed(RunEnded(key=key, end=End(cause=EndCause.EXIT, exit_code=code)))

    @rule(key=KEYS, code=st.integers(0, 3))
    def late_end_is_told_again(self, key: RunKey, code: int) -> None:
        if key not in self.processes and key not in self.launching:
            self.feed(RunEnded(key=key, end=End(cause=EndCause.EXIT, exit_code=code)))

    @precondition(lambda self: self.unsettled)
    @rule(data=st.data())
    def output_is_settled(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(self.unsettled))
        self.unsettled.remove(key)
        self.feed(OutputSettled(key=key, stored_bytes=10))

    @precondition(lambda self: self.shim_alive)
    @rule(killed=st.booleans())
    def shim_is_lost(self, killed: bool) -> None:
        self.shim_alive = False
        self.launching.clear()
        if killed:
            self.processes.clear()
        self.feed(ShimLost())

    @precondition(lambda self: not self.shim_alive)
    @rule()
    def shim_returns(self) -> None:
        self.shim_alive = True
        alive = dict.fromkeys(sorted(self.processes), 1.0)
        self.feed(ShimReady(alive=alive, ended={}, lost_message="the shim died"))

    @rule()
    def server_connects(self) -> None:
        self.connected = True
        self.welcomed = False
        self.feed(Connected())

    @precondition(lambda self: self.connected)
    @rule(valid=st.frozensets(KEYS))
    def server_welcomes(self, valid: frozenset[RunKey]) -> None:
        self.valid = valid
        self.session += 1
        self.welcomed = True
        self.feed(
            Welcomed(
                greeting=Greeting(
                    valid_runs=tuple(valid), session=self.session, heartbeat_interval_s=1.0, down_after_s=30.0
                )
            )
        )

    @precondition(lambda self: self.connected)
    @rule()
    def server_vanishes(self) -> None:
        self.connected = False
        self.welcomed = False
        self.feed(Disconnected())

    @precondition(lambda self: self.ends)
    @rule(data=st.data())
    def server_acknowledges_an_end(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.ends)))
        self.acknowledged.add(key)
        self.feed(Acknowledged(key=key, seq=2))

    @rule(key=KEYS)
    def server_acknowledges_a_start(self, key: RunKey) -> None:
        self.feed(Acknowledged(key=key, seq=1))

    @rule(passed_s=st.sampled_from([1.0, 10.0, 40.0]))
    def time_passes(self, passed_s: float) -> None:
        heard_s = self.now_s + passed_s if self.connected else self.now_s
        self.now_s += passed_s
        instructions = self.feed(Tick(now_s=self.now_s, heard_s=heard_s, wall_s=self.now_s))
        repeated = {i.report.key for i in instructions if isinstance(i, SendReport)}
        assert not repeated & self.acknowledged, "acknowledged ends are not repeated"
        self.repeated = repeated

    @invariant()
    def one_process_per_allocation(self) -> None:
        numbers = [key.number for key in self.processes]
        assert len(numbers) == len(set(numbers))

    @invariant()
    def live_is_what_may_have_processes(self) -> None:
        alive = {run.key for run in self.state.runs.values() if run.alive}
        assert alive == set(self.state.live.values())
        assert self.processes <= alive

    def teardown(self) -> None:
        """Left alone with a kind server, every accepted run comes to its one end."""
        if not self.shim_alive:
            self.shim_returns()
        self.server_connects()
        self.server_welcomes(frozenset(self.state.runs))
        while self.launching or self.processes or self.unsettled:
            for key in self.launching[:]:
                self.launching.remove(key)
                self.feed(RunRefused(key=key, message="no account"))
            for key in sorted(self.processes):
                self.processes.remove(key)
                self.feed(RunEnded(key=key, end=End(cause=EndCause.EXIT)))
            for key in self.unsettled[:]:
                self.unsettled.remove(key)
                self.feed(OutputSettled(key=key, stored_bytes=10))
        assert set(self.ends) == self.accepted
        self.time_passes(10.0)
        assert self.repeated == self.accepted - self.acknowledged
        for key in sorted(self.accepted - self.acknowledged):
            self.feed(Acknowledged(key=key, seq=2))
        assert not self.state.runs


AgentMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
TestAgent = AgentMachine.TestCase
