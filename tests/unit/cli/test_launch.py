"""`lattice launch` in memory: what is asked for, how output is merged, which code comes of it."""

import base64
import io
import struct

import pytest

from lattice.cli.errors import UsageError
from lattice.cli.input.multi_prog import read_programs
from lattice.cli.views.task_output import MergedOutput
from tests.unit.cli.runner import Cli
from tests.unit.sdk.fake_api import Asked, FakeApi, Reply

STEP = {"id": "a1.0", "allocation": "a1", "step": 0, "tasks": 2, "nodes": ["n1"], "state": "running"}


def records(*found: tuple[int, int, bytes]) -> str:
    raw = b"".join(struct.pack(">BII", stream, rank, len(data)) + data for rank, stream, data in found)
    return f'data: {{"node":0,"next":{len(raw)},"data":"{base64.b64encode(raw).decode()}"}}\n\n'


def result(code: int, *failures: str) -> str:
    told = ",".join(f'"{line}"' for line in failures)
    return f'event: result\ndata: {{"exit_code":{code},"failures":[{told}]}}\n\nevent: end\ndata: {{}}\n\n'


def serve(api: FakeApi, *events: str) -> list[Asked]:
    asked: list[Asked] = []

    def launch(request: Asked) -> Reply:
        asked.append(request)
        return Reply(status=201, json=STEP)

    api.on("POST", "/allocations/a1/steps", launch)
    api.on("GET", "/allocations/a1/steps/0/stream", lambda _: Reply(events=events))
    api.on("POST", "/allocations/a1/steps/0/input", lambda _: Reply(json={"upto": 0}))
    return asked


def test_output_failures_and_exit_code(cli: Cli, api: FakeApi) -> None:
    serve(api, records((0, 1, b"out\n"), (1, 2, b"err\n")), result(9, "task 1 on n1: exited with code 9"))
    done = cli("launch", "--alloc", "a1", "-n", "2", "work")
    assert (done.code, done.out) == (9, "out\n")
    assert done.err == "err\nlattice: a1.0: task 1 on n1: exited with code 9\n"


def test_outside_the_allocation_only_what_is_named_is_sent(cli: Cli, api: FakeApi) -> None:
    asked = serve(api, result(0))
    done = cli(
        "launch", "--alloc=a1", "-n", "2", "--env", "A=1", "--no-kill", "work", "-x", "--", "y", LATTICE_ALLOC_ID="a9"
    )
    assert done.code == 0
    body = asked[0].json
    assert body == {"argv": ["work", "-x", "--", "y"], "tasks": 2, "environment": {"A": "1"}, "no_kill": True}


def test_the_command_may_stand_behind_dashes_as_that_of_submit_and_attach(cli: Cli, api: FakeApi) -> None:
    asked = serve(api, result(0))
    assert cli("launch", "--alloc=a1", "-n", "2", "--", "work", "-n", "3", "--", "y").code == 0
    assert (asked[0].json["argv"], asked[0].json["tasks"]) == (["work", "-n", "3", "--", "y"], 2)
    done = cli("launch", "--alloc=a1", "--")
    assert (done.code, "no command given" in done.err) == (2, True), done.err


def test_a_step_that_was_lost_with_its_leader_is_asked_for_again(cli: Cli, api: FakeApi) -> None:
    asked: list[Asked] = []

    def launch(request: Asked) -> Reply:
        asked.append(request)
        return Reply(status=201, json={**STEP, "id": f"a1.{len(asked) - 1}", "step": len(asked) - 1})

    lost = Reply(status=404, json={"error": {"code": "not_found", "message": "no step a1.0"}})
    api.on("POST", "/allocations/a1/steps", launch)
    api.on("GET", "/allocations/a1/steps/0/stream", lambda _: lost)
    api.on("POST", "/allocations/a1/steps/0/input", lambda _: lost)
    api.on("GET", "/allocations/a1/steps/1/stream", lambda _: Reply(events=(records((0, 1, b"out\n")), result(3))))
    api.on("POST", "/allocations/a1/steps/1/input", lambda _: Reply(json={"upto": 0}))
    done = cli("launch", "--alloc=a1", "work")
    assert (done.code, done.out) == (3, "out\n"), done.err
    assert len(asked) == 2
    assert len({request.headers["x-request-id"] for request in asked}) == 1, "whoever knows the first finds it"


def test_a_step_that_has_written_is_never_asked_for_again(cli: Cli, api: FakeApi) -> None:
    asked = serve(api, records((0, 1, b"out\n")))
    answers = iter([Reply(events=(records((0, 1, b"out\n")),))])
    lost = Reply(status=404, json={"error": {"code": "not_found", "message": "no step a1.0"}})
    api.on("GET", "/allocations/a1/steps/0/stream", lambda _: next(answers, lost))
    done = cli("launch", "--alloc=a1", "work")
    assert (done.code != 0, done.out, "no step a1.0" in done.err) == (True, "out\n", True)
    assert len(asked) == 1


def test_inside_the_allocation_its_id_environment_and_directory_are_those_here(cli: Cli, api: FakeApi) -> None:
    asked = serve(api, result(0))
    assert cli("launch", "work", LATTICE_ALLOC_ID="a1", GREETING="hello").code == 0
    body = asked[0].json
    assert (body["environment"]["GREETING"], body["inherit_environment"], body["cwd"]) == (
        "hello",
        False,
        str(cli.folder),
    )


def test_files_of_the_tasks_own_are_the_nodes_business_and_others_ours(cli: Cli, api: FakeApi) -> None:
    asked = serve(api, records((0, 1, b"out\n"), (1, 2, b"err\n")), result(0))
    assert cli("launch", "--alloc=a1", "--output=out.%t", "work").code == 0
    assert asked[0].json["output"] == "out.%t"
    merged = cli.folder / "all.a1.0"
    done = cli("launch", "--alloc=a1", f"--output={cli.folder}/all.%J", "work")
    assert (done.out, merged.read_text()) == ("", "out\nerr\n")
    assert "output" not in asked[1].json


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (["work"], "no allocation given"),
        (["--alloc=a1"], "no command given"),
        (["--alloc=a1", "--env=A", "work"], 'cannot read "A"'),
        (["--alloc=a1", "--overlap", "--exclusive", "work"], "cannot be used with"),
        (["--alloc=a1", "--multi-prog=/no/such"], "cannot read /no/such"),
        (["--alloc=a1", "-n", "x", "work"], "invalid int value"),
    ],
)
def test_wrong_use_is_told_before_anything_is_sent(cli: Cli, line: list[str], told: str) -> None:
    done = cli("launch", *line)
    assert (done.code, told in done.err) == (2, True), done.err


def test_steps_are_listed(cli: Cli, api: FakeApi) -> None:
    ended = {**STEP, "state": "ended", "name": "work", "exit_code": 3, "ended_at": "2026-03-05T10:00:01.000Z"}
    api.on("GET", "/allocations/a1/steps", lambda _: Reply(json={"items": [ended], "next_cursor": None}))
    assert cli("steps", "a1").table()[1][:5] == ["a1.0", "work", "ended", "2", "n1"]
    assert cli("steps", "a1", "-o", "json").json[0]["exit_code"] == 3
    assert cli("steps").code == 2


def merged(tasks: int, *, label: bool = False, raw: bool = False) -> tuple[MergedOutput, io.BytesIO]:
    target = io.BytesIO()
    return MergedOutput({1: target, 2: target}, tasks, label=label, raw=raw), target


def test_lines_of_many_tasks_stay_whole() -> None:
    output, target = merged(2)
    output.write(0, 1, b"on")
    output.write(1, 1, b"two\nthr")
    output.write(0, 1, b"e\n")
    assert target.getvalue() == b"two\none\n"
    output.finish()
    assert target.getvalue() == b"two\none\nthr"


def test_labels_are_as_wide_as_the_highest_rank() -> None:
    output, target = merged(11, label=True)
    output.write(3, 1, b"a\nb\nc")
    output.write(10, 1, b"d\n")
    output.finish()
    assert target.getvalue() == b" 3: a\n 3: b\n10: d\n 3: c\n"


def test_bytes_of_one_task_come_as_they_are_and_long_lines_are_not_kept_back() -> None:
    output, target = merged(1)
    output.write(0, 1, b"prompt> ")
    assert target.getvalue() == b"prompt> "
    output, target = merged(2)
    output.write(0, 1, b"x" * 70_000)
    assert len(target.getvalue()) == 70_000


def test_a_plan_of_programs() -> None:
    programs = read_programs("# plan\n1,3-4 work 'two words' %t\n* rest\n\n", "plan")
    assert [(program.ranks, program.argv) for program in programs] == [
        ("0-65535", ["rest"]),
        ("1,3-4", ["work", "two words", "%t"]),
    ]


@pytest.mark.parametrize("text", ["", "0", "zero work", "1 'open"])
def test_a_plan_that_cannot_be_read(text: str) -> None:
    with pytest.raises(UsageError, match="plan"):
        read_programs(text, "plan")
