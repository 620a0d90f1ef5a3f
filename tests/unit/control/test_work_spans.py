"""Which spans the leader emits for work inside a trace."""

from lattice.control.tracing.spans import WorkSpans
from lattice.ports.site.traces import Span
from lattice.testing import scenario
from lattice.wire.text.traces import parse_traceparent
from lattice.wire.work.payloads import Work, encode_work
from tests.unit.control.world import World

SAMPLED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
NOT_SAMPLED = SAMPLED[:-1] + "0"


class Sink:
    def __init__(self) -> None:
        self.spans: list[Span] = []

    def add(self, span: Span) -> None:
        self.spans.append(span)


async def played(traceparent: str) -> list[Span]:
    world, sink = World(), Sink()
    await world.prepare("n1")
    WorkSpans(world.replica, sink)
    work = Work(argv=("true",), env={"TRACEPARENT": traceparent} if traceparent else {})
    number = await world.submit(payload=encode_work(work))
    world.clock.pass_s(5.0)
    await world.place(number, "n1")
    world.clock.pass_s(1.0)
    await world.started(number, "n1")
    world.clock.pass_s(3.0)
    await world.ended(number, "n1", exit_code=1)
    return sink.spans


@scenario
async def test_waiting_and_starting_are_spans_below_the_submission() -> None:
    spans = await played(SAMPLED)
    context = parse_traceparent(SAMPLED)
    assert context is not None
    assert [span.name for span in spans] == ["lattice.queued", "lattice.start", "lattice.run"]
    assert {(span.trace, span.parent) for span in spans} == {(context.trace, context.span)}
    assert [span.ended_at - span.began_at for span in spans] == [5000, 1000, 3000]
    assert [span.is_error for span in spans] == [False, False, True]
    assert {key for span in spans for key in span.attributes}.isdisjoint({"tenant", "user", "project"})


@scenario
async def test_work_without_a_trace_or_one_that_is_not_sampled_emits_nothing() -> None:
    for traceparent in ("", NOT_SAMPLED, "nonsense"):
        assert await played(traceparent) == []
