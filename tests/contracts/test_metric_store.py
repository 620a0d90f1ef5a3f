"""What every store of figures has to do: VictoriaMetrics and Prometheus as processes, filled by remote write as agents do it."""

import asyncio
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

import pytest

from lattice.agent.telemetry.push.encoding import CONTENT, Sample, labelled, snappy_block, write_request
from lattice.integrations.promql.client import PromqlStore
from lattice.integrations.promql.selectors import Sampled, quoted, raw_query, series_of
from lattice.ports.site.metric_store import Matcher, Selector, StoreAsk, StoredRun, StoreUnavailable
from tests.conftest import require_program
from tests.hooks import Hooks
from tests.s3_server import free_port

WINDOW_MS = 30_000
STATS = ("mean", "p50", "p95", "p99", "max", "count")
ALICE, EVE = StoredRun("a17", 1, "physics"), StoredRun("a18", 1, "biology")
STARTS_WITHIN_S = 60.0


class Filled:
    """A store that knows two runs of two tenants and a node; the newest window ended at `end_ms`."""

    def __init__(self, url: str, write: str) -> None:
        self.store = PromqlStore(url)
        self.end_ms = int(time.time() * 1000) // WINDOW_MS * WINDOW_MS
        samples: list[Sample] = []
        for back in range(4):
            at_ms = self.end_ms - (3 - back) * WINDOW_MS
            for run, factor in ((ALICE, 1.0), (EVE, 100.0)):
                for node in ("n1", "n2"):
                    owner = {"allocation": run.allocation, "run": "1", "tenant": run.tenant, "node": node}
                    samples += _window("lattice_allocation_cpus_used", owner, factor * (back + 1), at_ms)
                    if node == "n1":
                        for gpu in ("0", "1"):
                            samples += _window(
                                "lattice_allocation_gpu_utilization", owner | {"gpu": gpu}, factor * 10, at_ms
                            )
            samples += _window("lattice_node_load1", {"node": "n1"}, 7.0, at_ms)
        body = snappy_block(write_request(samples))
        request = urllib.request.Request(write, body, CONTENT, method="POST")  # noqa: S310 - of this machine
        with urllib.request.urlopen(request, timeout=10):  # noqa: S310 - as above
            pass

    def ask(self, *runs: StoredRun, metrics: tuple[str, ...] = ("cpus_used",), period_s: int = 300) -> StoreAsk:
        return StoreAsk(metrics=metrics, begin_ms=self.end_ms - period_s * 1000, end_ms=self.end_ms, runs=runs)


def _window(name: str, labels: dict[str, str], mean: float, at_ms: int) -> list[Sample]:
    values = {"mean": mean, "p50": mean, "p95": mean + 1, "p99": mean + 2, "max": mean + 3, "count": 30.0}
    return [Sample(name, labelled(labels | {"stat": stat}), values[stat], at_ms) for stat in STATS]


@pytest.fixture(scope="module", params=["victoria-metrics", "prometheus"])
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    program = require_program(request.param)
    folder, port = tmp_path_factory.mktemp("store"), free_port()
    (folder / "prometheus.yml").write_text("global: {}\n")
    words = {
        "victoria-metrics": [
            f"-storageDataPath={folder}/data",
            f"-httpListenAddr=127.0.0.1:{port}",
            "-retentionPeriod=1d",
            "-memory.allowedBytes=64MB",
        ],
        "prometheus": [
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{port}",
            "--web.enable-remote-write-receiver",
        ],
    }[request.param]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([program, *words], stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait(url, folder)
        filled = Filled(url, f"{url}/api/v1/write")
        _wait_filled(filled)
        yield filled
    finally:
        process.kill()
        process.wait()


def _wait(url: str, folder: Path) -> None:
    until = time.monotonic() + STARTS_WITHIN_S
    while True:
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=5):  # noqa: S310 - of this machine
                return
        except OSError as error:
            if isinstance(error, HTTPError):
                error.close()
            assert time.monotonic() < until, (folder / "log").read_text()
            time.sleep(0.05)


def _wait_filled(filled: Filled) -> None:
    until = time.monotonic() + STARTS_WITHIN_S
    while not asyncio.run(filled.store.read(filled.ask(ALICE))):
        assert time.monotonic() < until, "the store shows nothing of what it took"
        time.sleep(0.1)


def test_every_window_comes_back_as_it_was_sent(filled: Filled) -> None:
    found = asyncio.run(filled.store.read(filled.ask(ALICE)))
    assert {(each.run, each.node, each.metric, each.device) for each in found} == {
        (ALICE, node, "cpus_used", "") for node in ("n1", "n2")
    }
    windows = found[0].windows
    assert [window.mean for window in windows] == [1.0, 2.0, 3.0, 4.0]
    last = windows[-1]
    assert (last.at_ms, last.length_ms) == (filled.end_ms - WINDOW_MS, WINDOW_MS)
    assert (last.p50, last.p95, last.p99, last.max, last.count) == (4.0, 5.0, 6.0, 7.0, 30)


def test_devices_keep_their_names(filled: Filled) -> None:
    found = asyncio.run(filled.store.read(filled.ask(ALICE, metrics=("gpu_utilization",))))
    assert sorted((each.node, each.device) for each in found) == [("n1", "0"), ("n1", "1")]


def test_nothing_of_another_run_or_tenant_is_in_an_answer(filled: Filled) -> None:
    found = asyncio.run(filled.store.read(filled.ask(ALICE)))
    assert {each.run for each in found} == {ALICE}
    assert max(window.mean for each in found for window in each.windows) == 4.0
    stranger = StoredRun("a17", 1, "biology")
    later = StoredRun("a17", 2, "physics")
    assert asyncio.run(filled.store.read(filled.ask(stranger, later))) == ()
    both = asyncio.run(filled.store.read(filled.ask(ALICE, EVE)))
    assert {each.run for each in both} == {ALICE, EVE}


@pytest.mark.parametrize("name", ['a17"} or {tenant="biology', "a17|a18", "a.*", "a17\\", "a17\n", ".*"])
def test_a_name_cannot_leave_its_label(filled: Filled, name: str) -> None:
    several = (StoredRun(name, 1, "physics"), StoredRun(name, 1, "biology"))
    for runs in (several[:1], several):
        assert asyncio.run(filled.store.read(filled.ask(*runs))) == ()


def test_a_node_is_asked_for_by_name(filled: Filled) -> None:
    ask = StoreAsk(metrics=("load1",), begin_ms=filled.end_ms - 300_000, end_ms=filled.end_ms, node="n1")
    (found,) = asyncio.run(filled.store.read(ask))
    assert (found.run, found.node, found.metric, found.windows[-1].mean) == (None, "n1", "load1", 7.0)


def test_long_periods_are_put_together_by_step_without_counting_a_window_twice(filled: Filled) -> None:
    ask = StoreAsk(
        metrics=("cpus_used", "gpu_utilization"),
        begin_ms=filled.end_ms - 7200_000,
        end_ms=filled.end_ms,
        runs=(ALICE,),
        step_ms=60_000,
    )
    found = asyncio.run(filled.store.read(ask))
    (series,) = [each for each in found if each.metric == "cpus_used" and each.node == "n1"]
    assert sum(window.count for window in series.windows) == 4 * 30
    assert max(window.max for window in series.windows) == 7.0
    means = sum(window.mean * window.count for window in series.windows) / (4 * 30)
    assert means == pytest.approx(2.5)
    assert {window.length_ms for window in series.windows} == {60_000}
    assert len([each for each in found if each.metric == "gpu_utilization"]) == 2


def test_a_metric_of_the_site_is_averaged_over_the_nodes_that_are_named(filled: Filled) -> None:
    mean = (Matcher(label="stat", operator="=", value="mean"), Matcher(label="tenant", operator="=~", value="phys.*"))
    metric = Selector(name="lattice_allocation_cpus_used", matchers=mean)
    assert asyncio.run(filled.store.latest(metric, ("n1", "n2"), "a17")) == 4.0
    assert asyncio.run(filled.store.latest(metric, ("n9",), "a17")) is None
    assert asyncio.run(filled.store.latest(metric, ("n1", "n2"), "a1")) is None, "figures of other work on these nodes"
    widened = Selector(name=metric.name, matchers=(*mean, Matcher(label="node", operator="=~", value=".*")))
    assert asyncio.run(filled.store.latest(widened, ("n9",), "a17")) is None, "a matcher does not reach other nodes"


def test_a_store_that_is_gone_is_not_asked_again_at_once() -> None:
    now = [0.0]
    store = PromqlStore(f"http://127.0.0.1:{free_port()}", timeout_s=1.0, now_s=lambda: now[0])
    ask = StoreAsk(metrics=("cpus_used",), begin_ms=0, end_ms=1000, runs=(ALICE,))
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        asyncio.run(store.read(ask))
    with Hooks() as hooks:
        store._url = hooks.url
        with pytest.raises(StoreUnavailable):
            asyncio.run(store.read(ask))
        assert hooks.calls == []
        now[0] = 11.0
        with pytest.raises(StoreUnavailable, match="makes no sense"):
            asyncio.run(store.read(ask))
        assert len(hooks.calls) == 1


@pytest.mark.parametrize(("status", "tries"), [(400, 2), (422, 2), (500, 1)])
def test_a_metric_that_the_store_does_not_understand_does_not_close_it_to_others(status: int, tries: int) -> None:
    selector = Selector(name="tickets_open", matchers=(Matcher(label="queue", operator="=~", value="("),))
    with Hooks(answer=lambda: status) as hooks:
        store = PromqlStore(hooks.url, now_s=lambda: 0.0)
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match=f"status {status}"):
                asyncio.run(store.latest(selector, ("n1",), "a17"))
        assert hooks.tries == tries


def test_answers_that_lie_are_left_out() -> None:
    ask = StoreAsk(metrics=("cpus_used",), begin_ms=0, end_ms=60_000, runs=(ALICE,))
    labels = {"allocation": "a17", "run": "1", "tenant": "physics", "node": "n1", "stat": "mean"}
    good = Sampled(labels, [(30.0, "2.5"), (60.0, "NaN"), (float("inf"), "1")])
    answers = [
        ("cpus_used", good),
        ("memory_used", good),
        ("cpus_used", Sampled(labels | {"run": "9" * 30}, [(30.0, "1")])),
        ("cpus_used", Sampled(labels | {"tenant": "biology"}, [(30.0, "1")])),
        ("cpus_used", Sampled(labels | {"stat": "guess"}, [(30.0, "1")])),
    ]
    (found,) = series_of(ask, answers)
    assert [window.mean for window in found.windows] == [2.5]
    assert "\n" not in raw_query(
        StoreAsk(metrics=("cpus_used",), begin_ms=0, end_ms=1, runs=(StoredRun("a\nb", 1, "t"),))
    )
    assert quoted('a"b\\') == '"a\\"b\\\\"'
