"""The order of launch hooks, what is undone after a failure or a crash, and what a hook may take."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from lattice.agent.hooks.protocol import Finished, HookFailed, Launch
from lattice.agent.hooks.record import RECORD
from lattice.agent.hooks.runner import HookRunner
from lattice.ports.nodes.agents import RunKey, StartOrder

ORDER = StartOrder(key=RunKey(17, 2), allocation_id="a17", name="train", user="ada")
RUN = (ORDER.key, "a17")


async def nothing() -> None:
    return None


class Hook:
    """Notes what is asked of it; `then` happens after it has left something behind."""

    undoes_unrecorded = False
    timeout_s = 0.2

    def __init__(self, name: str, log: list[str], then: Callable[[], Awaitable[None]] = nothing) -> None:
        self.name = name
        self._log = log
        self._then = then

    def applies(self, order: StartOrder) -> bool:
        return True

    async def prepare(self, launch: Launch) -> None:
        launch.leave({"mount": f"/mnt/{self.name}"})
        self._log.append(f"prepare {self.name}")
        launch.request[self.name] = True
        await self._then()

    async def undo(self, finished: Finished) -> None:
        self._log.append(f"undo {self.name} {finished.left['mount']}")


async def refuse() -> None:
    raise HookFailed("no room")


async def hang() -> None:
    await asyncio.sleep(60)


def runner(folder: Path, *hooks: Hook) -> HookRunner:
    return HookRunner(hooks, lambda key: folder)


def test_hooks_prepare_in_order_and_are_undone_in_reverse(tmp_path: Path) -> None:
    log: list[str] = []
    request: dict[str, object] = {}
    hooks = runner(tmp_path, Hook("image", log), Hook("scratch", log))
    asyncio.run(hooks.prepare(ORDER, request))
    assert request == {"image": True, "scratch": True}
    assert asyncio.run(hooks.undo(*RUN)) == ""
    assert log == ["prepare image", "prepare scratch", "undo scratch /mnt/scratch", "undo image /mnt/image"]


def test_a_run_for_which_nothing_was_left_needs_no_undoing_unless_a_hook_asks_for_it(tmp_path: Path) -> None:
    class Unused(Hook):
        def applies(self, order: StartOrder) -> bool:
            return False

    class Always(Unused):
        undoes_unrecorded = True

    for hooks, expected in (((Unused,), False), ((Hook,), True), ((Unused, Hook), True), ((Unused, Always), True)):
        made = runner(tmp_path, *(kind(f"hook{place}", []) for place, kind in enumerate(hooks)))
        asyncio.run(made.prepare(ORDER, {}))
        assert made.has_left(ORDER.key) is expected
    assert runner(tmp_path, Unused("hook", [])).has_left(ORDER.key), "not known to an agent that did not prepare it"


def test_the_record_of_a_run_for_which_nothing_was_left_is_not_read_unless_a_hook_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unused(Hook):
        def applies(self, order: StartOrder) -> bool:
            return False

        async def undo(self, finished: Finished) -> None:
            self._log.append(f"undo {self.name}")

    class Always(Unused):
        undoes_unrecorded = True

    looked: list[Path] = []
    log: list[str] = []
    monkeypatch.setattr("lattice.agent.hooks.runner.read_record", looked.append)
    unused, always = runner(tmp_path, Unused("image", log)), runner(tmp_path, Always("site", log))
    for hooks, has_started in ((unused, True), (always, False), (always, True)):
        asyncio.run(hooks.prepare(ORDER, {}))
        assert asyncio.run(hooks.undo(*RUN, has_started=has_started)) == ""
    assert (looked, log) == ([tmp_path], ["undo site"])
    assert asyncio.run(unused.undo(*RUN)) == ""
    assert len(looked) == 2, "this agent did not prepare it again"


def test_what_was_prepared_before_a_failure_is_undone_the_failed_hook_included(tmp_path: Path) -> None:
    log: list[str] = []
    hooks = runner(tmp_path, Hook("image", log), Hook("scratch", log, refuse), Hook("pmi", log))
    with pytest.raises(HookFailed, match="no room"):
        asyncio.run(hooks.prepare(ORDER, {}))
    assert log == ["prepare image", "prepare scratch", "undo scratch /mnt/scratch", "undo image /mnt/image"]


def test_a_hook_that_takes_too_long_is_named(tmp_path: Path) -> None:
    log: list[str] = []
    with pytest.raises(HookFailed, match=r"image took longer than 0\.2 s"):
        asyncio.run(runner(tmp_path, Hook("image", log, hang)).prepare(ORDER, {}))
    assert log[-1] == "undo image /mnt/image"


def test_an_agent_that_comes_after_a_crash_undoes_exactly_what_was_left(tmp_path: Path) -> None:
    log: list[str] = []

    async def die() -> None:  # like the agent: nothing after it is carried out
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(
            runner(tmp_path, Hook("image", log), Hook("scratch", log, die), Hook("pmi", log)).prepare(ORDER, {})
        )
    log.clear()
    later = runner(tmp_path, Hook("image", log), Hook("scratch", log), Hook("pmi", log))
    assert asyncio.run(later.undo(*RUN)) == ""
    assert log == ["undo scratch /mnt/scratch", "undo image /mnt/image"]
    assert asyncio.run(later.undo(*RUN)) == ""
    assert len(log) == 2  # not again


def test_one_hook_that_cannot_be_undone_does_not_keep_the_others_from_it(tmp_path: Path) -> None:
    class Stuck(Hook):
        async def undo(self, finished: Finished) -> None:
            raise HookFailed("still mounted")

    log: list[str] = []
    hooks = runner(tmp_path, Hook("image", log), Stuck("scratch", log))
    asyncio.run(hooks.prepare(ORDER, {}))
    assert asyncio.run(hooks.undo(*RUN)) == "still mounted"
    assert log[-1] == "undo image /mnt/image"


def test_two_that_undo_a_run_at_the_same_time_undo_it_once(tmp_path: Path) -> None:
    log: list[str] = []
    hooks = runner(tmp_path, Hook("image", log))

    async def both() -> None:
        await hooks.prepare(ORDER, {})
        await asyncio.gather(hooks.undo(*RUN), hooks.undo(*RUN))

    asyncio.run(both())
    assert log == ["prepare image", "undo image /mnt/image"]


def test_a_hook_that_does_not_apply_leaves_no_record(tmp_path: Path) -> None:
    class Unneeded(Hook):
        def applies(self, order: StartOrder) -> bool:
            return False

    log: list[str] = []
    hooks = runner(tmp_path, Unneeded("image", log))
    asyncio.run(hooks.prepare(ORDER, {}))
    assert (log, (tmp_path / RECORD).exists()) == ([], False)


def test_a_node_that_cannot_write_the_record_prepares_nothing(tmp_path: Path) -> None:
    log: list[str] = []
    with pytest.raises(HookFailed, match="cannot write its record"):
        asyncio.run(runner(tmp_path / "missing", Hook("image", log)).prepare(ORDER, {}))
    assert log == []


def test_a_hook_that_breaks_does_not_keep_the_run_from_its_end(tmp_path: Path) -> None:
    class Broken(Hook):
        async def undo(self, finished: Finished) -> None:
            raise RecursionError

    log: list[str] = []
    hooks = runner(tmp_path, Hook("first", log), Broken("second", log))
    asyncio.run(hooks.prepare(ORDER, {}))
    assert asyncio.run(hooks.undo(*RUN)) == "second: RecursionError"
    assert log[-1] == "undo first /mnt/first"


def test_a_request_that_will_never_be_made_is_settled(tmp_path: Path) -> None:
    async def burst() -> None:
        raise RuntimeError("unforeseen")

    for then, failure in ((refuse, HookFailed), (burst, RuntimeError)):
        settled: list[object] = []
        log: list[str] = []
        hooks = HookRunner((Hook("container", log), Hook("access", log, then)), lambda key: tmp_path, settled.append)
        request: dict[str, object] = {"dir": "/run"}
        with pytest.raises(failure):
            asyncio.run(hooks.prepare(ORDER, request))
        assert settled == [request]
        assert log[-1] == "undo container /mnt/container"


def test_a_run_that_is_lost_while_it_is_prepared_is_undone_afterwards(tmp_path: Path) -> None:
    log: list[str] = []

    async def scenario() -> None:
        begun, lost = asyncio.Event(), asyncio.Event()

        async def make() -> None:
            begun.set()
            await lost.wait()
            log.append("make it")

        hooks = runner(tmp_path, Hook("scratch", log, make))
        preparing = asyncio.create_task(hooks.prepare(ORDER, {}))
        await begun.wait()
        assert hooks.has_left(ORDER.key)
        undoing = asyncio.create_task(hooks.undo(*RUN))
        await asyncio.sleep(0)  # it has its turn, and waits
        lost.set()
        await asyncio.gather(preparing, undoing)
        assert await hooks.undo(*RUN) == ""

    asyncio.run(scenario())
    assert log == ["prepare scratch", "make it", "undo scratch /mnt/scratch"]


def test_a_run_that_was_stopped_is_not_prepared_any_further(tmp_path: Path) -> None:
    log: list[str] = []
    hooks = runner(tmp_path, Hook("image", log), Hook("scratch", log))
    hooks.say = lambda key, text: not log
    with pytest.raises(HookFailed, match="it was stopped"):
        asyncio.run(hooks.prepare(ORDER, {}))
    assert log == ["prepare image", "undo image /mnt/image"]
