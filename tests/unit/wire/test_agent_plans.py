"""Every field of every record that crosses between servers and agents arrives, or is listed with the reason why it does not travel.

A field that is added to a record or to `agent.proto` fails here, and at the import of the plans, until the other side has it too.
"""

import inspect
import subprocess
import sys
from enum import Enum
from itertools import count
from typing import Any, get_args

import msgspec
import pytest
from msgspec import Struct
from msgspec import inspect as i

from lattice.ports.nodes import agents, collecting, images, measures, steps, telemetry
from lattice.ports.nodes.agents import Order, Phase, RunKey
from lattice.ports.nodes.collecting import CollectingOrder
from lattice.ports.nodes.steps import AnyStepOrder
from lattice.wire.agents import messages
from lattice.wire.agents import telemetry as telemetry_plans
from lattice.wire.agents.plans import Plan, PlanError
from lattice.wire.pb import agent_pb2 as pb

ORDERS = {**messages.RUN_ORDERS, **messages.STEP_ORDERS, **messages.COLLECTING_ORDERS}
PLANS: list[Plan[Any, Any]] = [
    *{
        id(plan): plan
        for plan in [*vars(messages).values(), *vars(telemetry_plans).values(), *ORDERS.values()]
        if isinstance(plan, Plan)
    }.values()
]

# Messages that no record stands for, and why.
WITHOUT_RECORD = {
    "AgentMessage": "what an agent sends is in its oneof",
    "ServerMessage": "what a server sends is in its oneof",
    "Batch": "holds messages of their own",
    "SignUpload": "asked and answered by ticket, between `agent/runs/signed_store.py` and `api/grpc/agents/session.py`",
    "UploadSigned": "the answer to SignUpload",
    "RunReports": "holds reports",
    "CollectedBeats": "holds what collectors gathered",
    "Protocol": "an Offer, which both sides check in `wire/agents/protocols.py`",
    "Confirmed": "a number, which the stream itself asks for",
    "ReportAck": "repeats two fields of the report's message",
    "Ping": "a number, between the agent's figures and the stream",
    "Pong": "the same number",
    "AskLog": "a number and a time, between a question and the stream",
    "LogTold": "a number, and lines of text",
    "HealthAck": "a number and a time, between the checks and the stream",
    "Measure": "a number and a key, between a question and the stream",
    "Measured": "a number, and what was measured",
    "RunChecks": "a number and names, between the checks and the stream",
    "Inventory": "a document that is checked as a whole",
    "RefreshInventory": "says nothing more",
    "ReadOutput": "a reader of the stream itself",
    "OutputChunk": "bytes for a reader of the stream itself",
    "StopReading": "a reader of the stream itself",
    "StepInput": "bytes for a step, passed on as they are",
    "StepInputTaken": "the answer to bytes for a step",
    "Goodbye": "the end of the stream itself",
    "Rejoin": "says nothing more",
    "StopTelemetry": "a number, between a follower and the stream",
    "OpenBulk": "a ticket for a second stream, between the link and the stream",
    "BulkFrame": "what tunnels send is in its oneof",
    "BulkFrames": "holds frames of tunnels",
    "OpenTunnel": "a frame of a tunnel, read where it is carried",
    "TunnelOpened": "a frame of a tunnel, read where it is carried",
    "TunnelClosed": "a frame of a tunnel, read where it is carried",
    "ListeningPort": "part of an answer about a run, read where it is asked",
}
# Records of the ports that no message stands for, and why.
WITHOUT_MESSAGE = {
    "InputPiece": "input for a step, which the stream itself carries as StepInput",
    "OutputPiece": "what a reader of output gets",
    "NodeUse": "what was measured, without its number",
    "StepOrder": "common to the orders about steps",
    "Program": "part of a user's request, which stays with the server",
    "LaunchRequest": "a user's request, which stays with the server",
    "StepView": "what the registry of steps shows to the API",
}

_numbers = count(2)


def sample(described: i.Type, name: str) -> Any:  # noqa: ANN401 - one arm per kind
    """A value of the type that is not its default, and different from that of every other field."""
    match described:
        case i.UnionType(types=types):
            return sample(next(each for each in types if not isinstance(each, i.NoneType)), name)
        case i.StructType(cls=record):
            return record_sample(record)
        case i.VarTupleType(item_type=item) | i.ListType(item_type=item):
            return (sample(item, name), sample(item, f"{name}-2"))
        case i.DictType():
            return {name: f"{name}-value"}
        case i.EnumType(cls=kind):
            return list(kind)[-1]
        case i.LiteralType(values=values):
            return values[-1]
        case i.BoolType():
            return True
        case i.FloatType():
            return next(_numbers) + 0.5
        case i.IntType():
            return next(_numbers)
        case i.BytesType():
            return name.encode()
        case _:
            return name


def record_sample(record: type[Struct]) -> Any:  # noqa: ANN401 - any record
    described = i.type_info(record)
    assert isinstance(described, i.StructType)
    plan = next((plan for plan in PLANS if plan.record is record), None)
    apart = plan.apart if plan is not None and record is not agents.StepKey else {}
    return record(**{f.name: sample(f.type, f.name) for f in described.fields if f.name not in apart or f.required})


def named(plan: Plan[Any, Any]) -> str:
    return f"{plan.record.__name__}-{plan.message.DESCRIPTOR.name}"


@pytest.mark.parametrize("plan", PLANS, ids=named)
def test_every_field_arrives_as_it_was_sent(plan: Plan[Any, Any]) -> None:
    sent = record_sample(plan.record)
    message = plan.message.FromString(plan.write(sent).SerializeToString())
    assert plan.read(message) == sent
    written = {field.name for field, _ in message.ListFields()}
    if plan is not messages.STEP_KEY:
        assert written == set(plan.names.values())


@pytest.mark.parametrize("plan", PLANS, ids=named)
def test_a_record_of_defaults_arrives_as_it_was_sent(plan: Plan[Any, Any]) -> None:
    required = [field for field in msgspec.structs.fields(plan.record) if field.required]
    sent = plan.record(**{field.name: getattr(record_sample(plan.record), field.name) for field in required})
    assert plan.read(plan.message.FromString(plan.write(sent).SerializeToString())) == sent


@pytest.mark.parametrize("plan", PLANS, ids=named)
def test_every_field_travels_or_has_a_reason_not_to(plan: Plan[Any, Any]) -> None:
    own = {field.name for field in msgspec.structs.fields(plan.record)}
    theirs = {field.name for field in plan.message.DESCRIPTOR.fields}
    apart = plan.apart.keys() | ({"run"} if plan is messages.STEP_KEY else set())
    assert own == plan.names.keys() | (apart & own)
    assert theirs == set(plan.names.values()) | (apart & theirs)
    assert all(len(why.split()) > 2 for why in plan.apart.values())


def test_fields_are_called_the_same_on_both_sides() -> None:
    renamed = {(named(plan), name) for plan in PLANS for name, wire_name in plan.names.items() if name != wire_name}
    # Figures are part of the replicated state, where the name of this one is written down.
    assert renamed == {("Figures-Hardware", "speed")}


def test_every_message_of_the_agents_stream_has_a_record_or_a_reason() -> None:
    carried = {plan.message.DESCRIPTOR.name for plan in PLANS}
    assert carried.isdisjoint(WITHOUT_RECORD)
    assert carried | WITHOUT_RECORD.keys() == set(pb.DESCRIPTOR.message_types_by_name)


def test_every_record_of_the_agents_ports_has_a_message_or_a_reason() -> None:
    found = {
        kind.__name__
        for module in (agents, collecting, images, measures, steps, telemetry)
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, Struct) and kind.__module__ == module.__name__
    }
    carried = {plan.record.__name__ for plan in PLANS}
    assert carried.isdisjoint(WITHOUT_MESSAGE)
    assert found - carried == WITHOUT_MESSAGE.keys()


def test_every_order_has_its_place_in_the_servers_message() -> None:
    orders = {kind for union in (Order, AnyStepOrder, CollectingOrder) for kind in get_args(union)}
    assert {plan.record for plan in ORDERS.values()} == orders
    for field, plan in ORDERS.items():
        message = messages.order_message(record_sample(plan.record))
        assert message.WhichOneof("body") == field
        read = [messages.run_order_of, messages.step_order_of, messages.collecting_order_of]
        assert [each(message) is not None for each in read].count(True) == 1


def test_what_an_agent_says_of_itself_arrives_with_its_figures() -> None:
    sent = record_sample(agents.Registration)
    told = messages.register_message(sent).register
    assert told.hardware.cpu_speed == 0
    figures = record_sample(messages.FIGURES.record)
    told = messages.register_message(msgspec.structs.replace(sent, figures=figures)).register
    assert messages.FIGURES.read(told.hardware) == figures
    assert messages.HARDWARE.read(told.hardware) == sent.hardware
    assert told.protocol.newest >= 2


def test_a_phase_of_a_later_release_is_none_that_a_server_acts_on() -> None:
    assert messages.RUN_REPORT.read(pb.RunReport(phase=77)).phase is Phase.STARTING  # type: ignore[arg-type]
    assert messages.RUN_REPORT.read(pb.RunReport(cause=77)).cause is None  # type: ignore[arg-type]


class MoreThanTheMessage(Struct, kw_only=True):
    number: int
    run: int
    colour: str


class LessThanTheMessage(Struct, kw_only=True):
    number: int


class OtherPhase(Enum):
    RUNNING = "running"


class WithOtherPhase(Struct, kw_only=True):
    key: RunKey
    phase: OtherPhase | None
    epoch: int


class WithPhase(Struct, kw_only=True):
    key: RunKey
    phase: Phase
    epoch: int


def test_a_field_that_one_side_lacks_is_refused_when_the_plan_is_made() -> None:
    with pytest.raises(PlanError, match="the message has no field colour"):
        Plan(MoreThanTheMessage, pb.RunKey)
    with pytest.raises(PlanError, match="the record has no field run"):
        Plan(LessThanTheMessage, pb.RunKey)
    with pytest.raises(PlanError, match="neither has a field colour"):
        Plan(RunKey, pb.RunKey, apart={"colour": "there is none"})


def test_a_field_whose_values_do_not_fit_is_refused_by_the_first_message() -> None:
    with pytest.raises(PlanError, match="only one of them has ENDED, RESTARTING, STARTING, STOPPING"):
        _ = Plan(WithOtherPhase, pb.KnownRun, messages.RUN_KEY).read
    with pytest.raises(PlanError, match="later release"):
        _ = Plan(WithPhase, pb.KnownRun, messages.RUN_KEY).write
    with pytest.raises(PlanError, match="no plan for RunKey"):
        _ = Plan(WithOtherPhase, pb.KnownRun).write


def test_texts_and_seconds_of_strangers_are_made_sensible_and_nothing_else_is() -> None:
    told = pb.KnownStep(key=pb.StepKey(step=3), launch_id="a\nb", plan=b"\n\xff", ended=True)
    known = messages.KNOWN_STEP.reader(texts=lambda text: text.replace("\n", "?"))(told)
    assert (known.launch_id, known.plan, known.key.step, known.ended) == ("a?b", b"\n\xff", 3, True)
    order = pb.StartRun(argv=["a\nb"], env={"A": "a\nb"}, walltime_s=-1.0, cpus=3)
    start = messages.START_RUN.reader(texts=str.upper, seconds=abs, cpus=lambda count: count + 1)(order)
    assert (start.argv, start.env, start.walltime_s, start.cpus) == (("A\nB",), {"A": "a\nb"}, 1.0, 4)


def test_the_first_start_waits_for_no_plan() -> None:
    """In an interpreter of its own: other tests have worked out the plans already."""
    done = subprocess.run([sys.executable, "-c", _FIRST_START], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


_FIRST_START = """
from lattice.ports.nodes.agents import Phase, Report, RunKey, StartOrder
from lattice.wire.agents import messages, plans

messages.ready_to_order()
messages.ready_for_orders()
plans._compiled = None  # whatever is worked out from now on fails
key = RunKey(number=7, run=1)
sent = messages.order_message(StartOrder(key=key, argv=("true",)))
assert messages.run_order_of(sent).argv == ("true",)
assert messages.RUN_REPORT.write(Report(key=key, seq=1, phase=Phase.RUNNING)).seq == 1
"""
