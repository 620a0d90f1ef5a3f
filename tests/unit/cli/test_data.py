"""`lattice data` and --data-mount: what is sent, shown, and said."""

from typing import Any

import pytest

from lattice.cli.errors import UsageError
from lattice.cli.input.data import parse_mount, parse_stage_out
from tests.unit.cli.runner import Cli, StandingClock
from tests.unit.sdk.fake_api import FakeApi

SOURCE = "s3://training/imagenet"


def copy(**more: Any) -> dict[str, Any]:  # noqa: ANN401
    empty = {"bytes_done": 0, "percent": 0.0, "bytes_per_s": 0.0, "seconds_left": None, "tries": 0, "reason": ""}
    times = {"checked_at": None, "used_at": None, "allocations": ["a1"], "users": 1, "generation": 1}
    return {"source": SOURCE, "state": "ready", "tenant": "physics", "size": 1000, "files": 2, **empty, **times, **more}


def test_sources_on_the_tier_are_listed(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/data", {"items": [copy(percent=100.0), copy(source="file:///x", state="failed", reason="gone")]})
    lines = cli("data", "list").lines
    assert lines[1].split()[:2] == [SOURCE, "ready"]
    assert lines[2].endswith("gone")
    assert cli("data", "list", SOURCE, "-o", "json").json[0]["source"] == SOURCE
    assert dict(api.last().query) == {"source": SOURCE}


def test_the_tier_is_shown_in_three_lines(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/data/tier", {"capacity": 10**9, "used": 4 * 10**8, "movers": 2, "waiting": 3})
    assert cli("data", "status").out == "hot tier: 400.0 MB of 1.0 GB used\nmovers: 2\nwaiting for data: 3\n"
    assert cli("data", "status", "-o", "json").json["movers"] == 2


def test_staging_shows_a_bar_until_the_copy_is_there(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/data/stage", copy(state="moving", percent=50.0, bytes_done=500, bytes_per_s=100.0, seconds_left=5))
    api.on("GET", "/data", {"items": [copy()]})
    cli.clock, cli.is_stderr_terminal = StandingClock(after=9), True
    outcome = cli("data", "stage", SOURCE, COLUMNS="120")
    assert f"[{'#' * 15}{'.' * 15}] 500 B of 1.0 kB, 100 B/s, 5 s left" in outcome.err
    assert (outcome.code, outcome.out) == (0, f"{SOURCE} is on the hot tier\n")
    api.on("POST", "/data/stage", copy(state="wanted"))
    assert cli("data", "stage", SOURCE, "--no-wait").out == f"{SOURCE} will be staged\n"
    api.on("POST", "/data/stage", copy(state="failed", reason="it is gone"))
    outcome = cli("data", "stage", SOURCE)
    assert (outcome.code, outcome.err) == (1, f"error: {SOURCE} could not be staged: it is gone\n")


def test_a_copy_that_was_evicted_meanwhile_is_an_error(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/data/stage", copy(state="moving"))
    api.on("GET", "/data", {"items": []})
    cli.clock = StandingClock(after=9)
    assert cli("data", "stage", SOURCE).code == 1


def test_eviction_is_an_order(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/data/evict", copy(state="leaving"))
    assert cli("data", "evict", SOURCE).out == f"{SOURCE} leaves the hot tier\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://b/set:/data", ("s3://b/set", "/data", "read-only", "")),
        ("/warm/set:/data/set:rw", ("/warm/set", "/data/set", "read-write", "")),
        ("file:///warm/set:/data:ro:hot", ("file:///warm/set", "/data", "read-only", "hot")),
        ("file:///warm/set:/data:direct:rw", ("file:///warm/set", "/data", "read-write", "direct")),
    ],
)
def test_mounts_are_read_from_their_end(text: str, expected: tuple[str, ...]) -> None:
    found = parse_mount(text)
    assert (found.source, found.target, found.access, found.tier_hint) == expected


@pytest.mark.parametrize("text", ["/data", "s3://b/set", "/warm:data", ":/data", "/warm:/data:ro:rw", "a:/b:cold"])
def test_what_is_no_mount_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_mount(text)


@pytest.mark.parametrize(
    ("text", "source", "target"),
    [
        ("results:/warm/out", "results", "/warm/out"),
        ("results:file:///warm/out", "results", "file:///warm/out"),
        ("a:b:/warm", "a:b", "/warm"),
        ("$LATTICE_SCRATCH/x:s3://bucket/x", "$LATTICE_SCRATCH/x", "s3://bucket/x"),
    ],
)
def test_results_are_read_as_people_write_them(text: str, source: str, target: str) -> None:
    found = parse_stage_out(text)
    assert (found.source, found.target) == (source, target)


@pytest.mark.parametrize("text", ["results", "results:", "results:out", ":/warm", ""])
def test_results_without_a_place_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--stage-out takes SRC:DEST"):
        parse_stage_out(text)


def kept(**more: Any) -> dict[str, Any]:  # noqa: ANN401
    fields = {"id": "a7", "user": "ada", "checkpoints": 2, "bytes": 1000, "ended_at": "2026-01-01T00:00:00Z"}
    return {**fields, "until": "2026-01-08T00:00:00Z", "kept": False, "kept_by": "", **more}


def test_what_is_kept_is_listed_under_the_rules(api: FakeApi, cli: Cli) -> None:
    periods = {"logs_s": 30 * 86400, "checkpoints_s": 7 * 86400, "traces_s": 0, "output_s": 0}
    api.on("GET", "/retention", {**periods, "items": [kept(), kept(id="a8", kept=True, kept_by="bob")]})
    lines = cli("retention", "list").lines
    assert lines[0] == "kept: logs 30 d, checkpoints 7 d, traces for good, results for good"
    assert lines[2].split()[:3] == ["a7", "ada", "2"]
    assert lines[3].split()[-2:] == ["kept", "bob"]


def test_lists_for_programs_have_rows_alone(api: FakeApi, cli: Cli) -> None:
    periods = {"logs_s": 30 * 86400, "checkpoints_s": 7 * 86400, "traces_s": 0, "output_s": 0}
    api.on("GET", "/retention", {**periods, "items": [kept()]})
    assert cli("retention", "list", "-o", "name").lines == ["a7"]
    assert cli("retention", "list", "-o", "csv").lines[0].startswith("ID,USER,")


def test_work_is_kept_and_released(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/retention/keep", kept(kept=True))
    assert cli("retention", "keep", "a7").out == "a7: logs and checkpoints are kept\n"
    assert api.last().json["keep"] is True
    api.on("POST", "/retention/keep", kept())
    assert cli("retention", "keep", "a7", "--release").out == "a7: logs and checkpoints go at 2026-01-08T00:00:00Z\n"
