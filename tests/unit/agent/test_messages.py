"""The agent's words on the wire."""

from importlib.metadata import version

from lattice.agent import messages, shim_client
from lattice.agent.connection import LONGEST_DELAY_S, delay_s
from lattice.agent.machine.reports import ended_report
from lattice.agent.machine.state import End, SendReport
from lattice.agent.machine.step_status import StepStatus
from lattice.agent.messages import NodeFacts
from lattice.agent.shim import shim
from lattice.agent.steps.messages import step_report
from lattice.core.model.nodes.observations import Beat
from lattice.ports.nodes.agents import EndCause, Phase, Report, RunKey, StartOrder
from lattice.wire.agents.messages import HEARTBEAT, START_RUN
from lattice.wire.pb import agent_pb2 as pb

KEY = RunKey(7, 2)


def test_the_agent_tells_the_version_that_is_installed() -> None:
    facts = NodeFacts(
        node_id="n1",
        address="",
        boot_id="",
        cpus=1,
        memory_mb=1,
        gpus=0,
        gpu_type="",
        group="",
        features=(),
        runs_as_root=False,
        agent_user="ada",
    )
    assert messages.register(facts, ()).register.agent_version == version("lattice-hpc")


def test_agent_and_shim_mean_the_same_socket() -> None:
    assert shim_client.SHIM_SOCKET == shim.SOCKET
    assert shim_client.SHIM_ALREADY_RUNNING == shim.EXIT_ALREADY_RUNNING
    assert shim_client.SHIM_PROGRAM.is_file()


def test_every_phase_and_cause_has_its_word_on_the_wire() -> None:
    for phase in Phase:
        report = messages.report(SendReport(report=Report(key=KEY, phase=phase, seq=1)), 0.0)
        assert report.run_report.phase == pb.Phase.Value(f"PHASE_{phase.name}")
    for cause in EndCause:
        told = SendReport(report=ended_report(KEY, End(cause=cause, exit_code=1)))
        report = messages.report(told, 0.0)
        assert report.run_report.cause == pb.EndCause.Value(f"END_CAUSE_{cause.name}")


def test_a_running_report_says_for_how_long() -> None:
    told = SendReport(report=Report(key=KEY, phase=Phase.RUNNING, seq=1), started_boot_s=100.0)
    assert messages.report(told, 130.0).run_report.elapsed_s == 30.0


def test_a_task_index_of_zero_is_not_the_absence_of_one() -> None:
    start = pb.StartRun(key=pb.RunKey(number=7, run=2), task_index=0)
    assert START_RUN.read(start).task_index == 0
    assert START_RUN.read(pb.StartRun(key=pb.RunKey(number=7, run=2))).task_index is None


def test_a_start_is_understood_and_a_request_for_output_is_no_stimulus() -> None:
    start = pb.StartRun(key=pb.RunKey(number=7, run=2), argv=["a b", "c"], env={"X": "1"}, fence=True)
    stimulus = messages.stimulus_of(pb.ServerMessage(start_run=start))
    assert isinstance(stimulus, StartOrder)
    order = stimulus
    assert (order.key, order.argv, order.env, order.fence) == (KEY, ("a b", "c"), {"X": "1"}, True)
    assert messages.stimulus_of(pb.ServerMessage(read_output=pb.ReadOutput(reader=1))) is None
    assert messages.stimulus_of(pb.ServerMessage()) is None


def test_pauses_grow_up_to_a_limit_and_vary() -> None:
    assert 0.025 <= delay_s(0) <= 0.05
    assert all(delay_s(failures) <= LONGEST_DELAY_S for failures in range(1, 100))
    assert delay_s(50) >= LONGEST_DELAY_S / 2
    assert len({delay_s(5) for _ in range(20)}) > 1


def test_a_heartbeat_stays_below_two_hundred_bytes_whatever_it_says() -> None:
    largest = HEARTBEAT.write(Beat(seq=2**63, running=2**31, load1=1234.5, memory_used_mb=2**40, session=2**62))
    for field in pb.Heartbeat.DESCRIPTOR.fields:
        if field.name not in ("seq", "running", "load1", "memory_used_mb", "session"):
            setattr(largest, field.name, b"12345678" if field.type == field.TYPE_BYTES else 2**31)
    assert pb.AgentMessage(heartbeat=largest).ByteSize() <= 200


def test_a_step_that_used_less_than_a_megabyte_used_some() -> None:
    said = step_report(StepStatus(number=7, run=2, phase="ended", peak_memory_mb=0.4), "l1").step_report
    assert said.peak_memory_mb == 1
