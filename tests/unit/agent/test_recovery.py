"""What a new agent makes of folders and a shim that outlived the last one."""

import json
import os
import time
from pathlib import Path

import pytest

from lattice.agent.machine.decide import step
from lattice.agent.machine.state import (
    AgentState,
    Connected,
    End,
    LaunchRun,
    OutputSettled,
    Retention,
    SendReport,
    ShimReady,
    Welcomed,
)
from lattice.agent.runs import recovery
from lattice.agent.runs.folders import RunFolders
from lattice.agent.runs.recovery import LastServer, judge, note_boot, note_server, recall, recall_server
from lattice.agent.shim_client import ShimRecord
from lattice.ports.nodes.agents import EndCause, Greeting, Phase, RunKey, StartOrder

KEY = RunKey(7, 2)
OWNER = (os.geteuid(), os.getegid())
ENDED = {"number": 7, "run": 2, "phase": "ended", "cause": "exit", "exit_code": 3, "elapsed_s": 1.5}


@pytest.fixture
def folders(tmp_path: Path) -> RunFolders:
    return RunFolders(tmp_path / "state", reachable=False)


def accept(folders: RunFolders, key: RunKey = KEY, shim_id: str = "old", *, fence: bool = False) -> Path:
    order = StartOrder(key=key, allocation_id=f"a{key.number}", argv=("true",), fence=fence, token="secret")
    return folders.create(order, OWNER, shim_id)


def write_status(folder: Path, status: dict[str, object]) -> None:
    (folder / "status.json").write_text(json.dumps(status))


def reported_ends(state: AgentState, ready: ShimReady) -> dict[RunKey, End]:
    """What a server is told after the shim answered."""
    step(state, Connected())
    step(
        state,
        Welcomed(
            greeting=Greeting(
                valid_runs=tuple(frozenset(state.runs)), session=1, heartbeat_interval_s=1.0, down_after_s=9.0
            )
        ),
    )
    step(state, ready)
    ends: dict[RunKey, End] = {}
    for key in list(state.runs):
        for told in step(state, OutputSettled(key=key, stored_bytes=0)):
            assert isinstance(told, SendReport)
            report = told.report
            assert report.cause is not None
            ends[report.key] = End(**{name: getattr(report, name) for name in End.__struct_fields__})
    return ends


def test_a_start_that_the_living_shim_never_heard_of_is_forgotten(folders: RunFolders) -> None:
    accept(folders, shim_id="same")
    state = recall(folders, (), "same", Retention())
    assert not state.runs
    assert not folders.path(KEY).exists()


def test_the_start_of_a_run_that_ended_without_an_agent_is_told_before_its_results_are_saved(
    folders: RunFolders,
) -> None:
    write_status(accept(folders), {**ENDED, "started_boot_s": 4.0})
    state = recall(folders, (), "same", Retention())
    step(state, judge(state, (), {KEY: ShimRecord(phase="ended", cause="exit", exit_code=3).end()}, "lost"))
    step(state, Connected())
    greeting = Greeting(valid_runs=(KEY,), session=1, heartbeat_interval_s=1.0, down_after_s=9.0)
    told = [each for each in step(state, Welcomed(greeting=greeting)) if isinstance(each, SendReport)]
    assert [(each.report.phase, each.started_boot_s) for each in told] == [(Phase.RUNNING, 4.0)]


def test_a_half_written_record_is_forgotten(folders: RunFolders) -> None:
    folder = accept(folders)
    (folder / "spec.json").write_text('{"shim_id": "o')
    assert not recall(folders, (), "new", Retention()).runs


def test_files_that_were_half_written_go_with_their_writer(folders: RunFolders) -> None:
    drafts = ("hooks.json.new", "token.new", "status.json.new")
    for shim_id, left in (("same", {"status.json.new"}), ("old", set[str]())):
        folder = accept(folders, shim_id=shim_id)
        for name in drafts:
            (folder / name).touch()
        recall(folders, {KEY}, "same", Retention())
        assert {path.name for path in folder.glob("*.new")} == left
        folders.acknowledge(KEY)
        assert not list(folder.glob("*.new"))
        folders.remove(KEY)


def test_a_start_for_a_dead_shim_counts_as_lost(folders: RunFolders) -> None:
    accept(folders, shim_id="old")
    state = recall(folders, (), "new", Retention())
    ends = reported_ends(state, judge(state, (), {}, "the shim died"))
    assert ends == {KEY: End(cause=EndCause.NODE, message="the shim died")}


def test_a_run_that_the_shim_knows_is_alive_and_keeps_its_fence(folders: RunFolders) -> None:
    accept(folders, shim_id="same", fence=True)
    record = ShimRecord(number=7, run=2, phase="running", started_boot_s=5.0)
    state = recall(folders, [KEY], "same", Retention())
    step(state, judge(state, [record], {}, "the shim died"))
    run = state.runs[KEY]
    assert (run.phase, run.fence, run.allocation_id, run.started_boot_s) == (Phase.RUNNING, True, "a7", 5.0)


def test_an_end_on_disk_is_reported_though_no_shim_knows_it(folders: RunFolders) -> None:
    write_status(accept(folders), ENDED)
    state = recall(folders, (), "new", Retention())
    found = next(iter(folders.found()))
    assert found.status is not None
    ends = reported_ends(state, judge(state, (), {KEY: found.status.end()}, "the shim died"))
    assert ends == {KEY: End(cause=EndCause.EXIT, exit_code=3, elapsed_s=1.5)}


def test_acknowledged_runs_are_kept_oldest_first_and_lower_runs_refused(folders: RunFolders) -> None:
    for number, age_s in ((1, 10), (2, 30), (3, 20)):
        folder = accept(folders, RunKey(number, 4))
        write_status(folder, {**ENDED, "number": number, "run": 4})
        folders.acknowledge(RunKey(number, 4))
        assert not (folder / "token").exists()
        moment = time.time() - age_s
        os.utime(folder / "acknowledged", (moment, moment))
    state = recall(folders, (), "new", Retention())
    assert not state.runs
    assert [key.number for key in state.kept] == [2, 3, 1]
    assert state.kept_bytes == sum(folders.size(RunKey(number, 4)) for number in (1, 2, 3)) > 0
    assert state.highest == {1: 4, 2: 4, 3: 4}


def test_a_run_without_a_token_is_acknowledged_too_and_one_that_is_gone_does_no_harm(folders: RunFolders) -> None:
    folder = accept(folders)
    (folder / "token").unlink(missing_ok=True)
    folders.acknowledge(KEY)
    assert (folder / "acknowledged").exists()
    folders.remove(KEY)
    folders.acknowledge(KEY)
    assert not folder.exists()


def test_an_unknown_cause_is_the_nodes_fault() -> None:
    end = ShimRecord(phase="ended", cause="gremlins").end()
    assert end.cause is EndCause.NODE
    assert "gremlins" in end.message


def test_strange_entries_among_the_run_folders_are_left_alone(folders: RunFolders, tmp_path: Path) -> None:
    (tmp_path / "state" / "runs" / "lost+found").mkdir()
    assert list(folders.found()) == []


def test_a_restart_of_the_machine_is_noticed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source"
    monkeypatch.setattr(recovery, "BOOT_ID_SOURCE", source)
    source.write_text("first\n")
    assert note_boot(tmp_path) == ("first", False)
    assert note_boot(tmp_path) == ("first", False)
    source.write_text("second\n")
    assert note_boot(tmp_path) == ("second", True)
    assert note_boot(tmp_path) == ("second", False)


def test_the_last_servers_patience_is_remembered(tmp_path: Path) -> None:
    assert recall_server(tmp_path) == (LastServer(), 0.0)
    server = LastServer(heartbeat_interval_s=10.0, down_after_s=90.0)
    note_server(tmp_path, server)
    moment = time.time() - 50
    os.utime(tmp_path / "server.json", (moment, moment))
    recalled, silent_s = recall_server(tmp_path)
    assert recalled == server
    assert 49 < silent_s < 60


def service(**changes: object) -> StartOrder:
    fields = {
        "key": KEY,
        "argv": ("serve",),
        "restart": "always",
        "token": "secret",
        "script": b"#!/bin/sh\n",
        **changes,
    }
    return StartOrder(**fields)  # type: ignore[arg-type]


def test_another_attempt_uses_the_folder_of_the_one_before(folders: RunFolders) -> None:
    folder = folders.create(service(), OWNER, "old")
    write_status(folder, ENDED)
    for name, text in (("stdout", "first\n"), ("hosts.hydra", "n1\n"), ("acknowledged", "")):
        (folder / name).write_text(text)
    folders.renew_token(KEY, "newer")
    again = folders.create(service(attempt=2, failures=1, streak=1), OWNER, "old")
    assert again == folder
    assert sorted(each.name for each in folder.iterdir()) == ["script", "spec.json", "stdout", "token"]
    assert ((folder / "stdout").read_text(), (folder / "token").read_text()) == ("first\n", "newer")
    assert folders.whole_order(KEY) == service(attempt=2, failures=1, streak=1, token="newer")


def test_another_instance_brings_its_own_script_and_token(folders: RunFolders) -> None:
    folder = folders.create(service(), OWNER, "old")
    folders.create(service(instance=1, token="other", script=b"#!/bin/sh\ntrue\n"), OWNER, "old")
    assert ((folder / "token").read_text(), (folder / "script").read_bytes()) == ("other", b"#!/bin/sh\ntrue\n")
    elsewhere = RunFolders(folder.parent.parent / "fresh", reachable=False)
    assert elsewhere.create(service(instance=4), OWNER, "old").is_dir()
    assert elsewhere.whole_order(RunKey(9, 9)) is None


def test_an_attempt_that_the_last_agent_was_about_to_start_is_started_by_the_next(folders: RunFolders) -> None:
    folders.create(service(), OWNER, "same")
    folders.create(service(attempt=3, failures=2, streak=2), OWNER, "same")
    state = recall(folders, (), "same", Retention())
    assert (state.runs[KEY].attempt, state.runs[KEY].is_resting, state.live) == (3, True, {})
    (launch,) = step(state, ShimReady(alive={}, ended={}, lost_message="the shim died"))
    assert isinstance(launch, LaunchRun)
    assert (launch.order.attempt, launch.order.token, launch.order.script) == (3, "secret", b"#!/bin/sh\n")


def test_a_service_that_ended_while_no_agent_was_there_is_started_again(folders: RunFolders) -> None:
    folder = folders.create(service(instance=2), OWNER, "same")
    write_status(folder, ENDED)
    state = recall(folders, {KEY}, "same", Retention())
    assert state.runs[KEY].instance == 2
    ended = End(cause=EndCause.EXIT, exit_code=3, elapsed_s=1.5)
    step(state, ShimReady(alive={}, ended={KEY: ended}, lost_message="the shim died"))
    assert (state.runs[KEY].attempt, state.runs[KEY].is_resting) == (2, True)
