"""What earlier releases said: agents, servers and clients of theirs are still understood, and understand this one."""

import asyncio
import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from lattice.api.grpc.agents.messages import registration_of, report_of
from lattice.config.load import load
from lattice.config.schema import ServerConfig
from lattice.core.machine.levels import OLDEST
from lattice.wire.agents.messages import START_RUN
from lattice.wire.files.audit import read_lines
from lattice.wire.pb import agent_pb2 as pb
from lattice_sdk.audit_export import verify_export
from tests.integration.api.world import Response
from tests.upgrades import audit_files, configuration
from tests.upgrades.api_examples import API, over_grpc, over_http, two_worlds
from tests.upgrades.record import EXPECTED, HERE
from tests.upgrades.wire_messages import MESSAGES, message_class, said

RELEASES = sorted(path.parent.name for path in HERE.glob(f"*/{MESSAGES}"))
Line = dict[str, Any]


def lines_of(release: str, name: str) -> list[Line]:
    return [json.loads(line) for line in (HERE / release / name).read_text().splitlines()]


def message_of(release: str, name: str, body: str) -> Any:  # noqa: ANN401 - any message
    """The recorded message of this name whose oneof says `body`."""
    (line,) = (
        each
        for each in lines_of(release, MESSAGES)
        if each["message"] == f"lattice.v1.{name}" and body in each["fields"]
    )
    return getattr(message_class(line["message"]).FromString(base64.b64decode(line["bytes"])), body)


@pytest.mark.parametrize("release", RELEASES)
def test_every_message_still_says_what_it_said(release: str) -> None:
    """No field was renumbered, retyped, renamed or dropped."""
    for line in lines_of(release, MESSAGES):
        message = message_class(line["message"]).FromString(base64.b64decode(line["bytes"]))
        assert said(message) == line["fields"], line["message"]
        assert message.SerializeToString(deterministic=True) == base64.b64decode(line["bytes"]), line["message"]


@pytest.mark.parametrize("release", RELEASES)
def test_a_server_understands_an_old_agent(release: str) -> None:
    registration = registration_of(message_of(release, "AgentMessage", "register"))
    assert registration.node_id == "node-id"
    assert (registration.hardware.cpus, registration.hardware.memory_mb, registration.hardware.gpus) == (2, 3, 4)
    assert registration.hardware.features == ("features",)
    assert registration.address == "address"
    assert registration.boot_id == "boot-id"
    assert [(run.key.number, run.key.run) for run in registration.runs] == [(2, 3)]
    assert [step.launch_id for step in registration.steps] == ["launch-id"]
    assert registration.epoch == 21
    assert registration.takes_batches
    assert registration.collector_address == "collector-address"
    report = report_of(message_of(release, "AgentMessage", "run_report"))
    assert report is not None
    assert (report.key.number, report.key.run, report.seq) == (2, 3, 4)
    assert (report.exit_code, report.signal, report.message) == (6, 7, "message")
    assert (report.cpu_s, report.peak_memory_mb, report.elapsed_s) == (8.5, 10, 10.5)


@pytest.mark.parametrize("release", RELEASES)
def test_an_agent_understands_an_old_server(release: str) -> None:
    start: pb.StartRun = message_of(release, "ServerMessage", "start_run")
    order = START_RUN.read(start)
    assert (order.key.number, order.key.run) == (2, 3)
    assert (order.allocation_id, order.name, order.user, order.cwd) == ("allocation-id", "name", "user", "cwd")
    assert (order.argv, order.script, order.script_args) == (("argv",), b"script", ("script-args",))
    assert order.env == {"key": "value"}
    assert order.nodes == ("nodes",)
    assert (order.walltime_s, order.grace_s) == (11.5, 12.5)
    assert (order.cpus, order.memory_mb, order.gpus, order.tasks) == (14, 15, 16, 23)
    assert (order.task_index, order.task_group_id, order.submit_dir) == (17, "task-group-id", "submit-dir")
    assert (order.token, order.api_url, order.fence, order.summary) == ("token", "api-url", True, True)
    assert order.files is not None
    assert (order.files.stdout, order.files.stderr, order.files.stdin, order.files.append) == (
        "stdout",
        "stderr",
        "stdin",
        True,
    )
    assert order.early_signal is not None
    assert (order.early_signal.signal, order.early_signal.before_s, order.early_signal.to) == (2, 2.5, "to")


# Texts for people, figures that follow the clock, and how far the log has come.
_TEXTS = {"message", "hint", "reason", "detail", "help", "text", "current", "limit", "requested"}
UNSTEADY = _TEXTS | {"last_heartbeat_s", "last_response", "LastResponse", "applied_index", "digest", "digest_index"}


MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def named_by(items: list[Any]) -> str:
    """The field by which the items of a list are told apart; empty where there is none."""
    for name in ("key", "id", "name"):
        if items and all(isinstance(item, dict) and name in item for item in items):
            return name
    return ""


def missing(old: Any, new: Any, where: str = "") -> list[str]:  # noqa: ANN401 - any JSON
    """What a client of the old answer would look for in the new one and not find, or find changed."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            problem
            for key, value in old.items()
            for problem in (missing(value, new[key], f"{where}.{key}") if key in new else [f"{where}.{key} is gone"])
        ]
    if isinstance(old, list) and isinstance(new, list) and (name := named_by(old)):
        after = {each.get(name): each for each in new}
        return [problem for each in old for problem in missing(each, after.get(each[name]), f"{where}[{each[name]}]")]
    if isinstance(old, list) and isinstance(new, list):
        return [
            problem
            for index, (before, after) in enumerate(zip(old, new, strict=False))
            for problem in missing(before, after, f"{where}[{index}]")
        ]
    if isinstance(old, str) and isinstance(new, str) and MOMENT.fullmatch(old) and MOMENT.fullmatch(new):
        return []  # the log's time goes on
    if where.rpartition(".")[2] in UNSTEADY or (isinstance(old, str) and isinstance(new, str) and "\n" in old):
        return [] if isinstance(new, type(old)) or None in (old, new) else [f"{where} was {old!r}, is {new!r}"]
    return [] if old == new else [f"{where} was {old!r}, is {new!r}"]


# Answers that changed on purpose: the operation, how what differs begins, and why. A client of the release sees the new answer.
_NOT_READ = "a setting that nothing reads is not listed"
_WALLTIME = "a vCluster without a default walltime gets that of the cluster"
CHANGED: dict[tuple[str, str], str] = {
    ("list_settings", ".items[rate_limits."): _NOT_READ,
    ("list_settings", ".items[accounting.enabled]"): _NOT_READ,
    ("create_vcluster", ".default_walltime_s"): _WALLTIME,
    ("update_vcluster", ".default_walltime_s"): _WALLTIME,
    ("get_vcluster", ".default_walltime_s"): _WALLTIME,
    ("list_vclusters", ".items[gpu].default_walltime_s"): _WALLTIME,
    ("explanation", ".rank"): "held work has no place in the queue; clients always had to accept null",
}


def changes(line: Line, answer: Response, said_now: Line) -> list[str]:
    """What is different from the recorded answers of one request."""
    asked, before = line["rest"], line["grpc"]
    if (answer.status, said_now["status"]) != (asked["status"], before["status"]):
        return [f"status was {asked['status']}, is {answer.status}: {answer.body.decode()[:300]}"]
    found = missing(asked["answer"], answer.json()) if isinstance(asked["answer"], dict) else []
    name = f"lattice.v1.{before['response']}"
    for old, new in zip(before["answers"], said_now["answers"], strict=True):
        was, now = (said(message_class(name).FromString(base64.b64decode(each))) for each in (old, new))
        found += missing(was, now)
    return found


def is_intended(operation: str, change: str) -> bool:
    return any(operation == name and change.startswith(begin) for name, begin in CHANGED)


@pytest.mark.parametrize("release", RELEASES)
def test_requests_of_old_clients_are_answered_as_before(release: str) -> None:
    """Over both wires: the same status, and every field that was there."""
    level = json.loads((HERE / release / EXPECTED).read_text()).get("level", OLDEST)
    found: list[str] = []

    async def scenario() -> None:
        async with two_worlds(level) as (rest, other, channel):
            for line in lines_of(release, API):
                before, operation = line["grpc"], line["operation"]
                answer = await over_http(rest, line["rest"])
                request = base64.b64decode(before["request"])
                said_now = await over_grpc(channel, before["path"], request, other.admin, streams=before["streams"])
                unintended = [each for each in changes(line, answer, said_now) if not is_intended(operation, each)]
                asked = f"{line['rest']['method']} {line['rest']['path']} {line['rest']['body']}"
                found.extend(f"{operation} ({asked}): {each}" for each in unintended)

    asyncio.run(scenario())
    assert found == [], "a client of an earlier release would notice; if it should, say so in CHANGED"


@pytest.mark.parametrize("release", RELEASES)
def test_an_old_audit_export_and_its_segments_are_verified(release: str) -> None:
    folder = HERE / release / "audit"
    keys = json.loads((folder / audit_files.KEYS).read_text())
    verdict = verify_export((folder / audit_files.EXPORT).read_bytes().splitlines(keepends=True), keys)
    assert verdict.complete
    assert verdict.entries > 8
    assert set(verdict.keys) == set(keys)
    segments = sorted((folder / audit_files.SEGMENTS).iterdir())
    assert segments
    for segment in segments:
        assert list(read_lines(segment.read_bytes()))


@pytest.mark.parametrize("release", RELEASES)
def test_an_old_configuration_file_means_what_it_meant(release: str) -> None:
    expected = json.loads((HERE / release / configuration.READ).read_text())
    assert missing(expected, configuration.read(HERE / release / configuration.FILE)) == []


def test_every_key_of_the_configuration_was_recorded(tmp_path: Path) -> None:
    configuration.record_configuration(tmp_path)
    assert load(tmp_path / configuration.FILE, ServerConfig).node_agent.grace_period_s == 90.0


def test_something_was_recorded() -> None:
    assert RELEASES
