"""Terminals that their owner lets others watch: named, taken back, forgotten with terminal and run, and recorded."""

from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.levels import OLDEST
from lattice.core.model.site.audit import AuditKey, key_id
from lattice.core.model.site.tenants import SENSITIVE
from lattice.core.model.work.steps import MAX_WATCHERS, StepRecord, Watcher
from tests.unit.core.machine.world import World

PUBLIC = "ab" * 32


def share(number: int, user: str = "bert", step: int = 0, *, is_shared: bool = True) -> cmd.ShareTerminal:
    return cmd.ShareTerminal(number=number, step=step, user=user, is_shared=is_shared)


def record(step: int) -> StepRecord:
    return StepRecord(step=step, run=1, name="bash", nodes=("n1",), tasks=1, started_at=5, ended_at=9)


def test_a_terminal_is_shared_and_taken_back_and_a_repeat_changes_nothing() -> None:
    world = World()
    number = world.running("n1")
    assert world.must(share(number)) == (ev.TerminalShared(number=number, step=0, user="bert", is_shared=True),)
    world.must(share(number, "cleo", 1))
    assert world.must(share(number)) == ()
    assert world[number].watchers == (Watcher(0, "bert"), Watcher(1, "cleo"))
    world.must(share(number, is_shared=False))
    assert world.must(share(number, is_shared=False)) == ()
    assert world[number].watchers == (Watcher(1, "cleo"),)


def test_watchers_go_with_the_terminal_and_with_the_run() -> None:
    world = World()
    number = world.running("n1")
    for step in (0, 1):
        world.must(share(number, step=step))
    world.must(cmd.RecordSteps(number=number, steps=(record(0),)))
    assert world[number].watchers == (Watcher(1, "bert"),)
    assert "has ended" in world.refused(share(number, "cleo")).message
    world.must(cmd.RequeueAllocation(number=number))
    world.ended(number, "n1", stopped=True)
    assert world[number].watchers == ()
    ending = world.running("n2")
    world.must(share(ending))
    world.ended(ending, "n2")
    assert world[ending].watchers == ()


def test_what_cannot_be_shared_is_refused() -> None:
    world = World()
    waiting, running = world.submit(), world.running("n1")
    assert world.refused(share(99)).code == "not_found"
    assert world.refused(share(waiting)).code == "conflict"
    assert world.refused(share(running, world[running].user)).code == "invalid"
    assert world.refused(share(running, "")).code == "invalid"
    for place in range(MAX_WATCHERS):
        world.must(share(running, f"user{place}"))
    assert world.refused(share(running, "one-more")).limit == f"{MAX_WATCHERS}"


def test_sensitive_work_is_never_shared() -> None:
    world = World()
    world.must(cmd.AddAuditKey(key=AuditKey(id=key_id(PUBLIC), public=PUBLIC, server="s1")))
    for vcluster in list(world.state.vclusters.values()):
        world.must(cmd.SetVcluster(vcluster=replace(vcluster, scheduler=SENSITIVE)))
    assert world.refused(share(world.running("n1"))).code == "forbidden"


def test_sharing_is_in_the_audit_chain() -> None:
    world = World()
    number = world.running("n1")
    world.must(cmd.AddAuditKey(key=AuditKey(id=key_id(PUBLIC), public=PUBLIC, server="s1")))
    world.must(share(number))
    world.must(share(number, is_shared=False))
    entries = [chained.entry for chained in world.state.audit.entries.values()][-2:]
    assert [(each.kind, each.actor, each.subject, each.detail) for each in entries] == [
        ("terminal.share", "ada", f"a{number}.0", "bert"),
        ("terminal.unshare", "ada", f"a{number}.0", "bert"),
    ]


def test_servers_of_the_release_before_know_nothing_of_it() -> None:
    world = World(level=OLDEST)
    number = world.running("n1")
    assert "level 2" in world.refused(share(number)).message
