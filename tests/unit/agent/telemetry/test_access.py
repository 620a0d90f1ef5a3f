"""Which files runs touch: whose a process is, what is told of it, and what a reader that fails leaves in the record."""

import asyncio
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import zstandard

from lattice.agent.runs.signed_store import ChunkSink
from lattice.agent.telemetry.access.births import Births, Born
from lattice.agent.telemetry.access.fanotify import names_of, read_mounts
from lattice.agent.telemetry.access.reader import UNKNOWN, Owners, printable
from lattice.agent.telemetry.access.watching import AccessRecords, AccessWatch
from lattice.agent.telemetry.collector import Collector
from lattice.core.model.telemetry.modes import Mode, RunMode
from lattice.ports.nodes.agents import RunKey, StartOrder

ROOT = "lattice/fd00-12"
KEY = RunKey(7, 1)
ORDER = StartOrder(
    key=KEY,
    user="alice",
    output_prefix="hospital/-/a7/logs/run-1",
    upload_grant="granted",
    telemetry=RunMode(mode=Mode.AUDIT),
)


def in_group(run: str) -> str:
    return f"9:memory:/{ROOT}/alloc-{run}\n0::/{ROOT}/alloc-{run}/step-3\n"


def owners(groups: dict[int, str]) -> Owners:
    births = cast("Births", SimpleNamespace(read=lambda: iter(())))
    return Owners(ROOT, births, groups.get)


def test_a_process_belongs_to_the_run_in_whose_group_it_is() -> None:
    found = owners({10: in_group("7.1"), 11: "0::/user.slice\n", 12: f"0::/{ROOT}9/alloc-7.1\n"})
    assert [found.find(pid) for pid in (10, 11, 12, 13)] == ["7.1", "", "", UNKNOWN]


def test_children_that_live_for_a_moment_belong_to_the_run_of_their_parent() -> None:
    found = owners({10: in_group("7.1")})
    assert found.find(10) == "7.1"
    found.note(Born("fork", 20, 10))
    found.note(Born("fork", 21, 20))
    found.note(Born("exit", 20))
    assert (found.find(20), found.find(21)) == ("7.1", "7.1")


def test_a_process_that_is_gone_is_of_no_run_unless_its_parent_gives_processes_to_runs() -> None:
    groups = {1: "0::/\n", 2: "0::/\n"}
    found = owners(groups)
    found.note(Born("fork", 30, 1))
    found.note(Born("fork", 31, 2))
    groups[31] = in_group("7.1")
    found.note(Born("exec", 31))
    assert found.find(30) == ""
    found.note(Born("fork", 32, 2))
    assert found.find(32) == UNKNOWN, "its parent puts processes into runs"


def test_a_process_that_was_of_no_run_is_looked_at_again_when_it_starts_a_program() -> None:
    groups = {40: "0::/\n"}
    found = owners(groups)
    assert found.find(40) == ""
    groups[40] = in_group("8.2")
    found.note(Born("exec", 40))
    assert found.find(40) == "8.2"
    assert found.began == [40]


def test_mounts_that_hold_no_data_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "mountinfo"
    path.write_text(
        "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
        "23 22 0:5 / /proc rw - proc proc rw\n"
        "24 22 0:7 / /a\\040b rw master:1 - tmpfs tmpfs rw\n"
        "broken\n"
    )
    assert [(mount.device, mount.point) for mount in read_mounts(str(path))] == [("254:0", "/"), ("0:7", "/a b")]
    assert read_mounts(str(tmp_path / "none")) == []
    assert names_of(0x20 | 0x2 | 0x8) == ["open", "write", "close"]


def test_names_that_are_no_text_are_told_readably() -> None:
    assert printable(os.fsdecode(b"/tmp/\xff\n")) == "/tmp/\\xff\n"
    json.dumps(printable(os.fsdecode(b"/tmp/\xff")))


class Place:
    """A sink that keeps what it is given."""

    def __init__(self) -> None:
        self.stored: list[tuple[str, bytes]] = []

    def takes(self, grant: str) -> bool:
        return grant == "granted"

    async def put(self, prefix: str, name: str, grant: str, data: bytes) -> None:
        self.stored.append((f"{prefix}/{name}", data))


def a_watch(tmp_path: Path, program: str) -> AccessWatch:
    around = SimpleNamespace(cpus=1, ask=lambda *_: None, order_of=lambda _: ORDER, devices=None)
    watch = AccessWatch(Collector(cast("Any", around)), tmp_path, (sys.executable, "-S", "-c", program))
    watch.keep_at(cast("ChunkSink", Place()), "n1")
    return watch


def noted(watch: AccessWatch) -> list[dict[str, object]]:
    records = watch.records
    assert records is not None
    return [json.loads(line) for trace in records._traces.values() for _, line in trace.lines]


READER = """
import json, sys
print(json.dumps({"ready": True, "follows_children": True}), flush=True)
for line in sys.stdin:
    for run in json.loads(line):
        print(json.dumps({"run": run, "at_ms": 5, "path": "/secret", "did": ["open"]}), flush=True)
        print(json.dumps({"run": "9.9", "at_ms": 5, "path": "/other", "did": ["open"]}), flush=True)
    END
"""


@pytest.mark.root
def test_lines_of_a_run_are_recorded_and_a_reader_that_ends_leaves_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    say = AccessWatch._say_gap

    async def scenario() -> None:
        watch, gap = a_watch(tmp_path, READER.replace("END", "sys.exit(0)")), asyncio.Event()

        def say_gap() -> None:
            say(watch)
            gap.set()

        monkeypatch.setattr(watch, "_say_gap", say_gap)
        running = asyncio.create_task(watch.run())
        assert await watch.asked(ORDER) == ""
        async with asyncio.timeout(30):
            await gap.wait()
        lines = noted(watch)
        assert lines[0]["begun"] is True
        assert [line["path"] for line in lines if "path" in line][:1] == ["/secret"]
        assert all(line.get("path") != "/other" for line in lines)
        assert all(line["user"] == "alice" for line in lines)
        running.cancel()

    asyncio.run(scenario())


@pytest.mark.root
def test_a_run_does_not_start_where_nothing_can_be_recorded(tmp_path: Path) -> None:
    async def scenario() -> None:
        watch = a_watch(tmp_path, READER)
        ungranted = StartOrder(key=KEY, output_prefix=ORDER.output_prefix, telemetry=ORDER.telemetry)
        assert "object store" in await watch.asked(ungranted)
        assert await watch.asked(StartOrder(key=KEY)) == "", "only mode audit asks for it"
        watch.is_off = True
        assert "switched off" in await watch.asked(ORDER)

    asyncio.run(scenario())


def test_lines_that_no_store_takes_are_counted_in_the_record(tmp_path: Path) -> None:
    around = SimpleNamespace(cpus=1, ask=lambda *_: None, order_of=lambda _: ORDER, devices=None)
    records = AccessRecords(Collector(cast("Any", around)), cast("ChunkSink", Place()), "n1", tmp_path / "access")
    records.kept_bytes = 400
    for number in range(10):
        records.note(KEY, ORDER, {"at_ms": number, "path": "/x" * 20})
    lines = [json.loads(line) for trace in records._traces.values() for _, line in trace.lines]
    assert any("dropped" in line for line in lines)


def test_what_an_agent_did_not_store_any_more_is_stored_by_the_next_one(tmp_path: Path) -> None:
    around = SimpleNamespace(cpus=1, ask=lambda *_: None, order_of=lambda _: ORDER, devices=None)
    folder, place = tmp_path / "access", Place()

    def an_agent() -> AccessRecords:
        return AccessRecords(Collector(cast("Any", around)), cast("ChunkSink", place), "n1", folder)

    first = an_agent()
    for number in range(3):
        first.note(KEY, ORDER, {"at_ms": 5 + number, "path": f"/secret-{number}"})
    with (folder / "7.1.jsonl").open("ab") as file:
        file.write(b'{"at_ms": 9, "pa')  # and was killed
    (folder / "x.jsonl").write_bytes(b"\xff\n")
    (folder / "8.1.jsonl").write_bytes(b"")
    second = an_agent()
    asyncio.run(second.turn())
    ((name, data),) = place.stored
    assert name == "hospital/-/a7/telemetry/run-1/n1/000000000000005.access.jsonl.zst"
    lines = [json.loads(line) for line in zstandard.ZstdDecompressor().decompress(data, 1 << 20).splitlines()]
    assert [line["path"] for line in lines] == ["/secret-0", "/secret-1", "/secret-2"]
    assert all(line["user"] == "alice" for line in lines)
    assert not (folder / "7.1.jsonl").exists()
    assert not an_agent()._traces
