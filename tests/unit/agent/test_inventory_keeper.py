"""When the agent looks at its machine, what it says then, and what cannot hold it up."""

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from lattice.agent.discovery.hardware_file import MAX_FILE, HardwareFile, overlay
from lattice.agent.discovery.keeper import InventoryKeeper, document_of, in_thread
from lattice.agent.discovery.tools import MAX_OUTPUT, ToolFailed, ToolHung, run_tool
from lattice.core.model.nodes.inventory import (
    MAX_DOCUMENT_BYTES,
    Board,
    Drive,
    Inventory,
    Software,
    UnusableInventory,
    decode_inventory,
    inventory_fingerprint,
)
from lattice.wire.pb import agent_pb2 as pb

FOUND = Inventory(memory_mb=1024, software=Software(kernel="6.1"), board=Board(bios_version="1"))


class Desk:
    """What the agent sent."""

    def __init__(self) -> None:
        self.told: list[pb.Inventory] = []
        self._arrived = asyncio.Event()

    def post(self, message: pb.AgentMessage) -> None:
        self.told.append(message.inventory)
        self._arrived.set()

    async def after(self, count: int) -> Inventory:
        async with asyncio.timeout(30):
            while len(self.told) < count:
                self._arrived.clear()
                await self._arrived.wait()
        return decode_inventory(self.told[-1].document)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110 - nobody tells when a file was read
            await asyncio.sleep(0.01)


def keeping(act: Callable[[InventoryKeeper, Desk], Awaitable[None]], **options: object) -> Desk:
    """Runs the keeper of a machine that has FOUND while `act` lasts."""

    async def run() -> Desk:
        service = Desk()
        given = {"look": lambda: FOUND, "poll_s": 0.01, **options}
        keeper = InventoryKeeper(FOUND, service.post, **given)  # type: ignore[arg-type]
        task = asyncio.create_task(keeper.run())
        try:
            await act(keeper, service)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return service

    return asyncio.run(run())


def test_what_is_announced_has_the_fingerprint_of_its_document() -> None:
    async def act(keeper: InventoryKeeper, service: Desk) -> None:
        keeper.announce()
        assert await service.after(1) == FOUND
        assert service.told[0].fingerprint == inventory_fingerprint(FOUND) == keeper.fingerprint
        assert keeper.mark == bytes.fromhex(keeper.fingerprint)[:8]

    keeping(act)


def test_a_request_is_answered_though_nothing_changed() -> None:
    async def act(keeper: InventoryKeeper, service: Desk) -> None:
        assert keeper.received(pb.ServerMessage(refresh_inventory=pb.RefreshInventory()))
        assert not keeper.received(pb.ServerMessage(welcome=pb.Welcome()))
        assert await service.after(1) == FOUND

    keeping(act)


def test_it_looks_again_after_its_time_and_reports_so_that_the_server_does_not_take_it_for_stale() -> None:
    async def act(keeper: InventoryKeeper, service: Desk) -> None:
        assert await service.after(3) == FOUND

    keeping(act, every_s=0.02)


def test_a_change_is_told_without_being_asked() -> None:
    other = replace(FOUND, board=Board(bios_version="2"))

    async def act(keeper: InventoryKeeper, service: Desk) -> None:
        assert await service.after(1) == other
        assert keeper.inventory == other

    keeping(act, look=lambda: other, every_s=0.02)


def troubled(*failures: bool) -> Callable[[], Inventory]:
    """A machine whose driver does not answer in those of the looks; the last one stands for all further ones."""
    left = list(failures)

    def look() -> Inventory:
        fails = left.pop(0) if len(left) > 1 else left[0]
        return replace(FOUND, board=Board(), problems=("the driver does not answer",)) if fails else FOUND

    return look


def test_a_source_that_fails_for_once_is_asked_again_before_it_is_believed() -> None:
    async def act(keeper: InventoryKeeper, service: Desk) -> None:
        keeper.refresh()
        assert await service.after(1) == FOUND

    keeping(act, look=troubled(True, True, False), again_s=0.0)


def test_a_source_that_goes_on_failing_is_believed_and_looked_at_more_often() -> None:
    async def act(keeper: InventoryKeeper, service: Desk) -> None:
        keeper.refresh()
        assert (await service.after(1)).problems == ("the driver does not answer",)
        async with asyncio.timeout(30):
            while await service.after(len(service.told)) != FOUND:
                await service.after(len(service.told) + 1)

    keeping(act, look=troubled(True, True, True, True, False), again_s=0.0, troubled_s=0.02)


def test_a_synthetic_hardware_file_is_followed_and_a_broken_one_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "hardware.json"
    path.write_text('{"board": {"bios_version": "2"}}')
    file = HardwareFile(path)

    async def act(keeper: InventoryKeeper, service: Desk) -> None:
        assert (await service.after(1)).board.bios_version == "2"
        for broken in ("{", "[]", '{"nonsense": 1}', '{"memory_mb": "x"}'):
            path.write_text(broken)
            await until(lambda: not file.has_changed())
        path.write_text('{"board": {"bios_version": "3"}}')
        found = await service.after(2)
        assert (found.board.bios_version, found.memory_mb, found.sources) == ("3", 1024, ("file",))

    assert len(keeping(act, hardware=file).told) == 2


def test_looking_that_hangs_holds_nobody_up() -> None:
    released = threading.Event()

    def look() -> Inventory:
        released.wait(60)
        return FOUND

    with pytest.raises(TimeoutError):
        asyncio.run(in_thread(look, 0.05))
    released.set()


def test_looking_that_fails_leaves_what_was_known() -> None:
    def look() -> Inventory:
        raise OSError("the driver is gone")

    async def act(keeper: InventoryKeeper, service: Desk) -> None:
        keeper.refresh()
        assert await service.after(1) == FOUND

    keeping(act, look=look)


def test_tables_are_merged_and_lists_replaced() -> None:
    base = replace(FOUND, drives=(Drive(name="nvme0"), Drive(name="nvme1")), drivers={"nvidia": "1", "amd": "2"})
    laid = overlay(base, b'{"drives": [{"name": "nvme9"}], "drivers": {"nvidia": "3"}, "board": {"bmc_version": "7"}}')
    assert laid.drives == (Drive(name="nvme9"),)
    assert laid.drivers == {"nvidia": "3", "amd": "2"}
    assert laid.board == Board(bios_version="1", bmc_version="7")
    with pytest.raises(UnusableInventory, match="known: cpus"):
        overlay(base, b'{"bios": "1"}')
    with pytest.raises(UnusableInventory, match=r'board has no "bios_verion"; known: vendor'):
        overlay(base, b'{"board": {"bios_verion": "1"}}')


def test_a_hardware_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnusableInventory, match=r"cannot read .*gone"):
        HardwareFile(tmp_path / "gone").laid_over(FOUND)
    long = tmp_path / "long"
    long.write_text('{"board": {"bios_version": "' + "x" * MAX_FILE + '"}}')
    with pytest.raises(UnusableInventory, match="long: more than 1048576 bytes"):
        HardwareFile(long).laid_over(FOUND)


def test_a_document_that_would_be_too_long_loses_its_longest_lists() -> None:
    many = replace(FOUND, drives=tuple(Drive(name=f"nvme{number}", model="x" * 200) for number in range(3000)))
    document = document_of(many)
    assert len(document) <= MAX_DOCUMENT_BYTES
    kept = decode_inventory(document)
    assert (kept.drives, kept.software) == ((), FOUND.software)
    assert kept.problems == ("scratch: too long to be sent", "drives: too long to be sent")


def program(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_a_program_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    for patience_s in (1.0, 5.0, 25.0):  # a busy machine may need longer to start it
        with pytest.raises(ToolHung, match=f"did not answer within {patience_s:g} s"):
            run_tool(["/bin/sh", "-c", f"sleep 300 & echo $! > {note}; wait"], patience_s)
        if note.exists() and note.read_text().strip():
            break
    child = int(note.read_text())
    deadline = time.monotonic() + 30
    while not _is_gone(child):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["/no/such/program"], "cannot be run"),
        (program("raise SystemExit(3)"), "ended with 3"),
        (program(f"import sys; sys.stdout.write('x' * {MAX_OUTPUT + 2})"), "said more than"),
    ],
)
def test_a_program_that_fails_says_how(argv: list[str], complaint: str) -> None:
    with pytest.raises(ToolFailed, match=complaint):
        run_tool(argv, 30.0)


def test_a_program_sees_nothing_of_the_agents_environment() -> None:
    os.environ["LATTICE_AGENT_TOKEN"] = "secret"
    try:
        said = run_tool(program("import json, os; print(json.dumps(dict(os.environ)))"), 30.0)
    finally:
        del os.environ["LATTICE_AGENT_TOKEN"]
    assert "LATTICE_AGENT_TOKEN" not in json.loads(said)
