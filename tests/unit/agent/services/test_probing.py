"""The node asks instances of services for their health, tells servers of it, and drains them before a stop."""

import asyncio
from collections.abc import Callable, Coroutine

from msgspec.structs import replace

from lattice.agent.machine.state import ProbeFailed
from lattice.agent.services.probing import InstanceWatch
from lattice.agent.shim_client import ShimMessage
from lattice.agent.tunnels.flight import Flight
from lattice.agent.tunnels.streams import Refused
from lattice.ports.nodes.agents import Readiness, RunKey, StartOrder
from lattice.ports.nodes.probes import ProbeKind, ProbeOrder, ProbeType
from lattice.wire.agents.messages import READINESS
from lattice.wire.pb import agent_pb2 as pb

KEY = RunKey(7, 1)


class Instance:
    """A process on a port that answers as it is told; None = nothing listens."""

    def __init__(self) -> None:
        self.answer: bytes | None = b"HTTP/1.1 200 OK\r\n\r\n"
        self.asked: list[bytes] = []
        self.busy = 0
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self.asked.append(await reader.readline())
        writer.write(self.answer or b"")
        writer.close()

    # As BulkStreams

    def in_flight(self, key: RunKey) -> int:
        return self.busy

    async def connect(self, key: RunKey, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.answer is None:
            raise Refused("not_listening", f"no process of it listens on port {port} alone")
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, real = self._server.sockets[0].getsockname()[:2]
        return await asyncio.open_connection(host, real)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0.01)  # transports close in a later turn of the loop


class Rig:
    def __init__(self) -> None:
        self.instance = Instance()
        self.told: list[Readiness] = []
        self.failed: list[ProbeFailed] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.news = asyncio.Event()
        self.commands: list[dict[str, object]] = []
        self.outcome: ShimMessage = ShimMessage(ok=True)
        self.watch = InstanceWatch(
            self.instance,
            self._ask,
            self._post,
            self._fail,
            self._spawn,
            asyncio.get_running_loop().time,
        )

    def _ask(self, body: dict[str, object], on_answer: Callable[[ShimMessage], None] | None) -> None:
        self.commands.append(body)
        self.news.set()
        if on_answer is not None:
            on_answer(self.outcome)

    def _post(self, message: pb.AgentMessage) -> None:
        self.told.append(READINESS.read(message.readiness))
        self.news.set()

    def _fail(self, failed: ProbeFailed) -> None:
        self.failed.append(failed)
        self.news.set()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        self.tasks.append(asyncio.create_task(work))

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                self.news.clear()
                await self.news.wait()


def in_rig(check: Callable[[Rig], Coroutine[None, None, None]]) -> None:
    async def run() -> None:
        rig = Rig()
        try:
            await check(rig)
        finally:
            rig.watch.end(KEY)
            await rig.instance.close()

    asyncio.run(run())


def probe(kind: ProbeKind, how: ProbeType = ProbeType.HTTP) -> ProbeOrder:
    return ProbeOrder(
        kind=kind, type=how, port=80, path="/ok", period_s=0.05, timeout_s=2.0, failure_threshold=2, success_threshold=1
    )


def order(*probes: ProbeOrder, drain_s: float = 0.0) -> StartOrder:
    return StartOrder(key=KEY, instance=2, restart="always", attempt=3, probes=probes, drain_s=drain_s)


def test_readiness_follows_the_answers_and_is_told_once_for_each_change() -> None:
    async def check(rig: Rig) -> None:
        rig.instance.answer = b"HTTP/1.1 503 Unavailable\r\n\r\n"
        rig.watch.begin(order(probe(ProbeKind.READINESS)))
        await rig.until(lambda: len(rig.told) == 2)
        assert [each.ready for each in rig.told] == [False, False]
        assert rig.told[1].text == "readiness probe failed 2 times in a row: GET /ok was answered with 503"
        rig.instance.answer = b"HTTP/1.1 204 No Content\r\n\r\n"
        await rig.until(lambda: rig.told[-1].ready)
        assert rig.told[-1] == Readiness(key=KEY, instance=2, ready=True)
        assert rig.instance.asked[0] == b"GET /ok HTTP/1.1\r\n"
        before = len(rig.told)
        rig.watch.announce()
        assert rig.told[before:] == [Readiness(key=KEY, instance=2, ready=True)]
        assert rig.failed == []

    in_rig(check)


def test_a_liveness_probe_that_fails_too_often_says_so_of_this_attempt() -> None:
    async def check(rig: Rig) -> None:
        rig.instance.answer = None
        rig.watch.begin(order(probe(ProbeKind.LIVENESS, ProbeType.TCP)))
        await rig.until(lambda: bool(rig.failed))
        assert (rig.failed[0].key, rig.failed[0].attempt) == (KEY, 3)
        assert "no process of it listens on port 80 alone" in rig.failed[0].message

    in_rig(check)


def test_a_probe_that_hangs_does_not_keep_another_from_ending_the_attempt_once() -> None:
    async def check(rig: Rig) -> None:
        connect, is_asked, goes_on = rig.instance.connect, asyncio.Event(), asyncio.Event()

        async def hang(key: RunKey, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            if port == 81:
                is_asked.set()
                await goes_on.wait()
            return await connect(key, port)

        rig.instance.connect = hang  # type: ignore[method-assign]
        rig.instance.answer = None
        hanging = replace(probe(ProbeKind.READINESS), port=81, timeout_s=3600.0, failure_threshold=1)
        rig.watch.begin(order(probe(ProbeKind.LIVENESS), hanging))
        await rig.until(lambda: bool(rig.failed))
        assert is_asked.is_set()
        assert rig.failed[0].message.startswith("liveness probe failed 2 times in a row")
        told = len(rig.told)
        goes_on.set()
        await asyncio.sleep(0.01)
        assert (len(rig.failed), len(rig.told)) == (1, told), "a late answer changes nothing"

    in_rig(check)


def test_what_does_not_speak_http_fails_an_http_probe_and_passes_a_tcp_probe() -> None:
    async def check(rig: Rig) -> None:
        rig.instance.answer = b"220 mail ready\r\n"
        rig.watch.begin(order(probe(ProbeKind.READINESS)))
        await rig.until(lambda: any("does not speak HTTP" in each.text for each in rig.told))
        rig.watch.begin(order(probe(ProbeKind.READINESS, ProbeType.TCP)))
        await rig.until(lambda: rig.told[-1].ready)

    in_rig(check)


def test_an_instance_without_probes_needs_no_words_until_it_is_drained() -> None:
    async def check(rig: Rig) -> None:
        stopped: list[str] = []
        rig.watch.begin(order(drain_s=30.0))
        rig.watch.announce()
        assert rig.told == []
        rig.instance.busy = 1
        rig.watch.stop(KEY, 5.0, lambda: stopped.append("stop"))
        rig.watch.stop(KEY, 5.0, lambda: stopped.append("repeated"))
        assert [each.text for each in rig.told] == ["it is being drained"]
        assert stopped == []
        rig.instance.busy = 0
        await asyncio.gather(*rig.tasks)
        assert stopped == ["stop"], "the request in flight has its answer"

    in_rig(check)


def test_a_drain_ends_with_its_time_and_a_stop_without_grace_does_not_wait() -> None:
    async def check(rig: Rig) -> None:
        stopped: list[str] = []
        rig.instance.busy = 1
        rig.watch.begin(order(drain_s=0.2))
        rig.watch.stop(KEY, 5.0, lambda: stopped.append("late"))
        rig.watch.stop(KEY, 0.0, lambda: stopped.append("at once"))
        assert stopped == ["at once"]
        await asyncio.gather(*rig.tasks)
        assert stopped == ["at once", "late"]
        rig.watch.stop(RunKey(9, 9), 5.0, lambda: stopped.append("unknown"))
        assert stopped[-1] == "unknown"

    in_rig(check)


def test_a_connection_is_busy_while_an_answer_is_awaited_and_not_because_it_is_open() -> None:
    flight = Flight()
    assert not flight.is_busy()
    flight.inward()
    assert flight.is_busy()
    flight.outward()
    assert flight.is_busy(), "there may be more to come"


def command(kind: ProbeKind) -> ProbeOrder:
    return ProbeOrder(kind=kind, type=ProbeType.EXEC, command=("./check", "-q"), period_s=0.05, failure_threshold=2)


def test_a_command_is_asked_of_the_shim_and_its_end_is_the_answer() -> None:
    async def check(rig: Rig) -> None:
        rig.outcome = ShimMessage(ok=True, exit_code=3, output="\n no model\x1b[2J yet\nmore\n")
        rig.watch.begin(order(command(ProbeKind.READINESS)))
        await rig.until(lambda: len(rig.told) == 2)
        assert rig.told[1].text == "readiness probe failed 2 times in a row: ./check: exit code 3:  no model?[2J yet"
        assert rig.commands[0] == {"op": "probe", "number": 7, "run": 1, "argv": ["./check", "-q"], "within_s": 5.0}
        rig.outcome = ShimMessage(ok=True)
        await rig.until(lambda: rig.told[-1].ready)

    in_rig(check)


def test_a_command_that_the_shim_had_to_end_fails_the_instance() -> None:
    async def check(rig: Rig) -> None:
        rig.outcome = ShimMessage(ok=False, error="it did not end within 5 s", signal=9)
        rig.watch.begin(order(command(ProbeKind.LIVENESS)))
        await rig.until(lambda: bool(rig.failed))
        assert rig.failed[0].message.endswith("./check: it did not end within 5 s")

    in_rig(check)


def test_a_shim_that_knows_no_commands_fails_no_instance_and_passes_none() -> None:
    async def check(rig: Rig) -> None:
        rig.outcome = ShimMessage(ok=False, error="unknown op 'probe'")
        rig.watch.begin(order(command(ProbeKind.LIVENESS), command(ProbeKind.READINESS)))
        await rig.until(lambda: len(rig.commands) >= 8)  # four of each: twice their thresholds
        assert not rig.failed
        assert [told.ready for told in rig.told] == [False, False]
        assert rig.told[-1].text == "the shim of its node is of an older release and cannot run commands as probes"
        rig.outcome = ShimMessage(ok=True)
        await rig.until(lambda: rig.told[-1].ready)

    in_rig(check)
