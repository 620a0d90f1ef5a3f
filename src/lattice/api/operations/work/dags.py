"""DAGs: submit, read, list, draw, cancel."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from lattice.api.answers import Drawn, Page
from lattice.api.auth.rbac import Permission
from lattice.api.auth.scope import Scope
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.cursors import make_cursor, page_size, read_cursor
from lattice.api.find.dag_lookup import find_dag
from lattice.api.find.lookup import find_number, with_message
from lattice.api.limits import MAX_PAGE
from lattice.api.submit.data import check_data, check_settled, with_output
from lattice.api.submit.defaults import apply_defaults, settle
from lattice.api.submit.dependencies import with_dependencies
from lattice.api.submit.filter import screen
from lattice.api.submit.images import resolve_images, with_image_fields
from lattice.api.submit.scratch import settle_scratch
from lattice.api.submit.site_images import settle_images
from lattice.core.machine.commands import CancelDag, DagMember, SubmitDag
from lattice.core.model.ids import MAX_NUMBER, dag_id
from lattice.core.model.site.settings import setting_value
from lattice.core.model.work.dags import Dag, DagState
from lattice.wire.text.problems import BadField
from lattice.wire.text.texts import check_name
from lattice.wire.work.dag_drawing import dag_graph, draw_svg
from lattice.wire.work.dags import (
    DagGraph,
    DagSubmission,
    DagView,
    Member,
    SubmittedMember,
    dag_edges,
    dag_view,
    member_head,
    member_view,
    read_members,
)
from lattice.wire.work.data import NO_DATA
from lattice.wire.work.payloads import decode_work
from lattice.wire.work.submissions import Submitter, submit_command

DEFAULT_PAGE = 100
ARCHIVE_PAGE = 1_000
MAX_COMMAND_BYTES = 1_400_000


class GetDag(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str


class GraphQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    format: Literal["json", "svg", "text"] = "json"


class CancelDagRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    request_id: str = ""


class DagQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    user: str = ""
    tenant: str = ""
    state: list[str] = []
    limit: int | None = None
    cursor: str = ""


async def submit_dag(context: Context, request: DagSubmission) -> DagView:
    """Submit a DAG, all of its allocations or none; it is durable and visible when the call returns."""
    _check_size(context, request)
    warnings: list[str] = []
    # Many members, and few tenants among them.
    tenant_of = cache(partial(context.chosen_tenant, Permission.SUBMIT))
    members = tuple([await _member(context, each, tenant_of, warnings) for each in read_members(request)])
    _check_tenants(members)
    command = SubmitDag(
        name=check_name(request.name, "name") if request.name else "dag",
        user=context.user,
        tenant=members[0].submission.tenant if members else context.chosen_tenant(Permission.SUBMIT, request.tenant),
        members=members,
    )
    _check_bytes(command)
    accepted = await context.carry_out(command, request.request_id)
    dag, is_archived = await find_dag(context, dag_id(accepted.number), Permission.READ)
    view = await _full_view(context, dag, is_archived=is_archived)
    return replace(view, warnings=tuple(warnings)) if warnings else view


def _check_tenants(members: tuple[DagMember, ...]) -> None:
    """Who sees and cancels a DAG does so with all of it, so all of it is one tenant's."""
    tenants = sorted({member.submission.tenant for member in members})
    if len(tenants) > 1:
        raise BadField(
            "allocations",
            "all allocations of a DAG belong to one tenant",
            current=f"tenants: {', '.join(tenants)}",
            limit="1 tenant",
            hint="submit one DAG for each tenant; an allocation may depend on one that was submitted before",
        )


def _check_bytes(command: SubmitDag) -> None:
    """A DAG is one log entry, whose size is limited."""
    size = len(msgspec.msgpack.encode(command))
    if size > MAX_COMMAND_BYTES:
        raise BadField(
            "allocations",
            "scripts, arguments and environments of the DAG are too large together",
            current=f"{size:,} bytes after compression",
            limit=f"{MAX_COMMAND_BYTES:,} bytes after compression",
            hint="put large scripts into files that the allocations read",
        )


def _check_size(context: Context, request: DagSubmission) -> None:
    """The machine's own refusal, given before thousands of submissions are looked at."""
    limit = int(setting_value(context.state.settings, "scheduling.max_dag_size"))
    if len(request.allocations) > limit:
        raise ApiError(
            "invalid",
            f"DAG exceeds maximum size ({len(request.allocations)} allocations, limit: {limit})",
            hint="split the workflow into smaller DAGs or increase the limit via system configuration",
        )


async def _member(
    context: Context, wanted: SubmittedMember, tenant_of: Callable[[str], str], warnings: list[str]
) -> DagMember:
    identity = context.identity
    submitter = Submitter(
        user=identity.user,
        account=identity.account,
        tenant=tenant_of(wanted.submission.tenant),
        vcluster=context.default_vcluster,
    )
    if wanted.submission.resume_from:
        raise BadField(f'allocation "{wanted.ref}"', "resume_from is not possible in a DAG", hint="submit it by itself")
    try:
        submission = with_output(context, with_image_fields(wanted.submission), submitter)
        command = submit_command(submission, submitter, await resolve_images(context, submission))
        if submission.data != NO_DATA:
            await check_data(context, decode_work(command.payload), submitter.tenant, submitter.account)
    except BadField as problem:
        raise BadField(
            f'allocation "{wanted.ref}"', str(problem), current=problem.current, limit=problem.limit, hint=problem.hint
        ) from None
    prepared = apply_defaults(context, command, names_vcluster=bool(wanted.submission.vcluster))
    await screen(context, prepared)
    settle(context, prepared)
    if submission.data != NO_DATA or submission.scratch:
        check_settled(context, prepared.command, submitter.tenant)
        await settle_scratch(context, prepared)
    await settle_images(context, prepared, submission.uenv)
    warnings += [f"{wanted.ref}: {text}" for text in prepared.warnings]
    command = await with_dependencies(context, prepared.command, wanted.outside)
    return DagMember(ref=wanted.ref, submission=command, needs=dag_edges(wanted.inside))


async def get_dag(context: Context, request: GetDag) -> DagView:
    """Get one DAG with its allocations, active or archived."""
    dag, is_archived = await find_dag(context, request.id, Permission.READ)
    return await _full_view(context, dag, is_archived=is_archived)


async def get_dag_graph(context: Context, request: GraphQuery) -> DagGraph | Drawn[DagGraph]:
    """Get the allocations and edges of a DAG; with `format`, a drawing."""
    dag, _ = await find_dag(context, request.id, Permission.READ)
    graph = dag_graph(dag, await _members(context, dag))
    if request.format == "svg":
        svg = draw_svg(graph)
        return Drawn(replace(graph, svg=svg), "image/svg+xml", svg)
    return Drawn(graph, "text/plain; charset=utf-8", graph.text) if request.format == "text" else graph


async def cancel_dag(context: Context, request: CancelDagRequest) -> DagView:
    """Cancel every allocation of the DAG that has not ended."""
    dag, _ = await find_dag(context, request.id, Permission.CHANGE)
    for member in await _all_members(context, dag):
        head = member_head(member)
        if not context.covers(Permission.CHANGE, user=head.user, tenant=head.tenant):
            raise ApiError("forbidden", f"{dag_id(dag.number)} has allocations of other tenants")
    await context.carry_out(CancelDag(number=dag.number), request.request_id)
    dag, is_archived = await find_dag(context, request.id, Permission.READ)
    return await _full_view(context, dag, is_archived=is_archived)


async def list_dags(context: Context, request: DagQuery) -> Page[DagView]:
    """List DAGs, active and ended, newest first."""
    limit = page_size(request.limit, DEFAULT_PAGE, MAX_PAGE)
    before = read_cursor(request.cursor, tuple[int])[0] if request.cursor else MAX_NUMBER
    wanted = _wanted(context, request)
    hot = {n: dag for n, dag in context.state.dependencies.dags.items() if n < before and wanted.takes(dag)}
    found = await _archived(context, wanted, before, limit + 1) | hot
    numbers = sorted(found, reverse=True)
    items = [await _list_view(context, found[number]) for number in numbers[:limit]]
    cursor = make_cursor(numbers[limit - 1]) if len(numbers) > limit else None
    return Page(items=items, next_cursor=cursor)


async def _list_view(context: Context, dag: Dag) -> DagView:
    """One that has ended knows how its members did."""
    is_archived = dag.number not in context.state.dependencies.dags
    return dag_view(dag, [] if dag.counts else await _members(context, dag), archived=is_archived)


@dataclass(frozen=True, slots=True)
class _Filter:
    """Which DAGs the caller asks for and may see; nothing = all."""

    user: str
    scope: Scope
    states: frozenset[DagState]

    def takes(self, dag: Dag) -> bool:
        return (
            self.scope.takes(dag.user, dag.tenant)
            and self.user in ("", dag.user)
            and (not self.states or dag.state in self.states)
        )


def _wanted(context: Context, request: DagQuery) -> _Filter:
    return _Filter(request.user, context.scope(Permission.READ, request.tenant), _states(request.state))


async def _archived(context: Context, wanted: _Filter, before: int, most: int) -> dict[int, Dag]:
    """The newest matching archived ones, up to a limit."""
    user, tenant = wanted.user or wanted.scope.only_user, wanted.scope.only_tenant
    found: dict[int, Dag] = {}
    while page := await context.services.replica.archived_dags(user, tenant, before, ARCHIVE_PAGE):
        for dag in page:
            if wanted.takes(dag):
                found[dag.number] = dag
            if len(found) == most:
                return found
        before = page[-1].number
    return found


def _states(wanted: list[str]) -> frozenset[DagState]:
    known = {state.value.lower(): state for state in DagState}
    words = [word.strip().lower() for text in wanted for word in text.split(",") if word.strip()]
    for word in words:
        if word not in known:
            raise BadField("state", f'"{word[:40]}" is not a state of a DAG', hint=f"one of {', '.join(DagState)}")
    return frozenset(known[word] for word in words)


async def _all_members(context: Context, dag: Dag) -> list[Member]:
    """Members that a retention rule has removed from the archive are left out."""
    found = [await find_number(context, number) for number in dag.members]
    return [each.record for each in found if each is not None]


async def _members(context: Context, dag: Dag) -> list[Member]:
    """Those that the caller may see: a DAG of an earlier version may have members in several tenants."""
    heads = [(member, member_head(member)) for member in await _all_members(context, dag)]
    owners = {(head.user, head.tenant) for _, head in heads}
    visible = {(user, tenant) for user, tenant in owners if context.covers(Permission.READ, user=user, tenant=tenant)}
    return [with_message(context, each) for each, head in heads if (head.user, head.tenant) in visible]


def _nothing(_number: int) -> str:
    return ""


async def _full_view(context: Context, dag: Dag, *, is_archived: bool) -> DagView:
    members = await _members(context, dag)
    names = {member.number: member_head(member).dag_ref for member in members}
    now_ms = context.services.clock.now_ms()
    explain = _nothing if is_archived else context.services.scheduling.reason_for
    views = tuple([member_view(member, names, now_ms=now_ms, explain=explain) for member in members])
    return replace(dag_view(dag, members, archived=is_archived), allocations=views or UNSET)
