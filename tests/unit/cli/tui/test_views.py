"""What the views say."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from lattice.cli.errors import UsageError
from lattice.cli.tui.history import history
from lattice.cli.tui.lines import Line, bar, both_ends, cut, padded, width_of, wrapped
from lattice.cli.tui.places import VIEWS, view_at
from lattice.cli.tui.views.log import KEPT, Log, LogLines
from lattice.cli.tui.views.nodes import NodeFilter, Nodes
from lattice.cli.tui.views.site import UsageView
from lattice.cli.tui.views.timeline import TimelineView
from lattice_sdk.errors import Forbidden
from lattice_sdk.models.changes import Event
from lattice_sdk.models.records import Allocation, Free, Node, Tenant, Usage
from lattice_sdk.models.reports import UsageReport
from lattice_sdk.models.web.page import Timeline, TimelineBar, TimelineNode, TimelineReservation
from tests.unit.cli.runner import NOON, StandingClock, allocation


def texts(lines: list[Line]) -> list[str]:
    return ["".join(span.text for span in line) for line in lines]


@pytest.mark.parametrize("address", [*VIEWS, "allocations?state:failed", "allocations/a17", "allocations/a17/log",
                                     "nodes/n1", "dags/d3", "services/default/web", "admin/audit"])  # fmt: skip
def test_every_address_has_a_view(address: str) -> None:
    assert view_at(address, StandingClock()).address


@pytest.mark.parametrize(
    "address", ["", "jobs", "usage/x", "allocations/a17/b/c", "allocations?colour:red", "nodes?x:y"]
)
def test_other_addresses_are_refused(address: str) -> None:
    with pytest.raises(UsageError):
        view_at(address, StandingClock())


def test_nodes_are_filtered_by_state_group_and_name() -> None:
    ready = Node(id="n1", state="Ready", vcluster="hpc", group="g1")
    down = Node(id="n12", state="Down", vcluster="ai")
    assert NodeFilter("").takes(ready)
    assert NodeFilter("state:down,drained").takes(down)
    assert not NodeFilter("state:down").takes(ready)
    assert NodeFilter("vcluster:hpc group:g1 n[1-4]").takes(ready)
    assert not NodeFilter("n[3-4]").takes(ready)
    with pytest.raises(UsageError, match="colour:red"):
        NodeFilter("colour:red")
    view = Nodes("nodes", "")
    view.take([ready, down, Node(id="n3", state="Ready", cpus=8, free=Free(cpus=2))])
    assert "6/8" in "\n".join(texts(view.lines(80, 10)))


def at(hours: float) -> str:
    moment = datetime.fromtimestamp(NOON, UTC) + timedelta(hours=hours)
    return moment.isoformat().replace("+00:00", "Z")


def test_the_timeline_draws_what_ended_runs_and_is_to_come() -> None:
    view = TimelineView("timeline", "", StandingClock())
    plain: dict[str, Any] = {"name": "", "user": "ada", "group_id": None, "state": "Running"}
    bars = (
        TimelineBar(id="a1", own=False, kind="past", start=at(-5), end=at(-4), nodes="n[1-2]", **plain),
        TimelineBar(id="a2", own=True, kind="running", start=at(-1), end=at(2), nodes="n1", **plain),
        TimelineBar(id="a3", own=False, kind="predicted", start=at(2), end=None, nodes="n1", **plain),
    )
    closed = TimelineReservation(name="r", start=at(4), end=at(5), nodes="n2", maintenance=True)
    nodes = (TimelineNode("n1", "Ready"), TimelineNode("n2", "Down"))
    view.take(
        Timeline(now=at(0), since=at(-6), until=at(6), nodes=nodes, bars=bars, reservations=(closed,), left_out=7)
    )
    axis, first, second, legend = texts(view.lines(78, 20))
    assert "|12:00" in axis or "|" in axis
    assert first.startswith("n1")
    assert all(sign in first for sign in "▒█░")
    assert first.rstrip().endswith("░")  # without an end it goes on
    assert ("▒" in second, "█" in second, "x" in second) == (True, False, True)
    assert "predicted" in legend
    assert "7 left out" in view.remark()
    view.is_own = True
    view.take(view.found)  # type: ignore[arg-type]
    assert "▒" not in texts(view.lines(78, 20))[1]
    assert view.command("ada") == "lattice timeline --user=ada"
    view.zoom(-1)
    assert view.span_h == 3
    assert view.command("ada") == "lattice timeline --since=3h --until=+3h --user=ada"
    view.shift = -2
    day = datetime.fromtimestamp(NOON, UTC).strftime("%Y-%m-%d")
    assert view.command("ada") == f"lattice timeline --since={day}T03:00Z --until={day}T09:00Z --user=ada"


def test_users_see_their_own_hours_where_those_of_the_tenant_are_not_for_them() -> None:
    class Api:
        def user_usage(self, user: str, days: int) -> Usage:
            return Usage(user="ada", node_hours=2)

        def list_tenants(self) -> list[Tenant]:
            return [Tenant(name="physics"), Tenant(name="own")]

        def tenant_usage(self, name: str, days: int, *, user: str = "") -> Usage:
            if name == "physics" and not user:
                raise Forbidden(status=403, code="forbidden", message="only administrators")
            return Usage(tenant=name, user=user or None, node_hours=2, gpu_hours=1)

        def usage_report(self, by: str, since: str) -> UsageReport:
            raise Forbidden(status=403, code="forbidden", message="not for you")

    view = UsageView("usage", StandingClock())
    view.take(view.read(Api()))  # type: ignore[arg-type]
    shown = [text.split() for text in texts(view.compose(80))]
    assert ["Your", "node", "hours", "2.0", "h"] in shown
    assert ["GPU", "hours", "1.0", "h,", "no", "budget"] in shown


def test_ten_thousand_nodes_are_drawn_as_far_as_they_are_seen() -> None:
    view = TimelineView("timeline", "", StandingClock())
    nodes = tuple(TimelineNode(f"n{number}", "Ready") for number in range(10_000))
    view.take(Timeline(now=None, since=None, until=None, nodes=nodes, bars=(), reservations=(), left_out=0))
    view.to_end(is_last=True)
    lines = texts(view.lines(80, 22))
    assert len(lines) == 22
    assert lines[-2].startswith("n9999")


def test_output_is_cut_into_lines_by_node_and_stream() -> None:
    log = LogLines()
    log.take("n1", "stdout", b"one\ntw")
    log.take("n2", "stderr", b"oops\n")
    log.take("n1", "stdout", b"o\nend")
    assert log.lines() == [
        ("n1", "stdout", "one"),
        ("n2", "stderr", "oops"),
        ("n1", "stdout", "two"),
        ("n1", "stdout", "end"),
    ]
    assert log.lines(node="n2") == [("n2", "stderr", "oops")]
    log.take("n1", "stdout", b"\n" * (KEPT + 5))
    assert len(log.kept) == KEPT
    log.take("n1", "stdout", b"x" * 200_000)  # a line without an end is cut, not kept for ever
    assert log.lines()[-1][2] != "x" * 200_000 or len(log._rest["n1", "stdout"]) == 0


def test_an_output_is_searched_and_followed() -> None:
    view = Log("allocations/a1/log", "a1")
    view.log.take("n1", "stdout", b"".join(b"line %d\n" % number for number in range(100)))
    view.log.take("n2", "stdout", b"10%\r20%\r30%\n")
    assert texts(view.lines(80, 5))[-1] == "n2: 30%"  # what a progress bar wrote last
    assert view.find("line 42", 80)
    assert texts(view.lines(80, 5))[0] == "n1: line 42"
    assert not view.is_following
    assert not view.find("nowhere", 80)
    view.next_node()
    view.find("", 80)
    view.to_end(is_last=True)
    assert texts(view.lines(80, 5))[-1] == "line 99"
    view.move(-1)
    assert not view.is_following


def test_the_story_is_told_by_changes_and_else_by_the_record() -> None:
    record = msgspec.convert(
        allocation(7, state="Failed", nodes=["n1", "n2"], submitted_at="2026-03-05T10:00:00Z",
                   started_at="2026-03-05T10:01:00Z", completed_at="2026-03-05T10:02:00Z", ending="it failed"),
        Allocation,
    )  # fmt: skip
    assert [text for _, text in history(record, [])] == ["submitted", "started on n[1-2]", "it failed"]
    heard = [
        Event(index=1, kind="submitted", id="a7", at="2026-03-05T10:00:00Z"),
        Event(index=2, kind="placed", id="a7", at="2026-03-05T10:00:30Z", nodes=["n1", "n2"]),
        Event(index=3, kind="started", id="a7", at="2026-03-05T10:01:00Z", run=2),
        Event(index=4, kind="ended", id="a7", at="2026-03-05T10:02:00Z", state="Failed", cause="oom", exit_code=137),
        Event(index=5, kind="ended", id="a8", at="2026-03-05T10:02:00Z", state="Failed"),
    ]
    assert [text for _, text in history(record, heard)] == [
        "submitted", "placed on n[1-2]", "run 2 started", "ended: Failed, oom, exit code 137",
    ]  # fmt: skip


def test_texts_fit_whatever_they_are_made_of() -> None:
    assert (cut("abcdef", 4), cut("日本語", 4), cut("abc", 0)) == ("abc…", "日…", "")
    assert (padded("a", 3), padded("a", 3, is_right=True)) == ("a  ", "  a")
    assert [text.strip() for text in texts(wrapped("one two three", 8))] == ["one two", "three"]
    assert all(width_of(line) <= 5 for line in wrapped("x" * 23, 5))
    assert "".join(texts(wrapped("x" * 23, 5))) == "x" * 23
    assert (bar(0.5, 4), bar(2.0, 2), bar(-1.0, 2)) == ("██  ", "██", "  ")
    assert texts([both_ends(wrapped("left", 9)[0], wrapped("right", 9)[0], 8)]) == ["left"]
