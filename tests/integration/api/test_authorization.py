"""Every operation, for every role, about one's own things, a colleague's, another tenant's and as a member of none; on both wires.

Alice of the tenant chemistry owns what is asked for. Nobody of another tenant learns anything of it, from no answer and no error.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import msgspec
import pytest
from starlette.types import Message

from lattice.api.auth.rbac import TABLE, Permission, Reach, Role
from lattice.api.operations.operation import Operation
from lattice.api.operations.table import OPERATIONS
from lattice.api.rest import events as rest_events
from lattice.core.machine.commands import SetTenant, SetVcluster
from lattice.core.model.site.tenants import Tenant, Vcluster, Visibility
from tests.integration.api import grpc_wire
from tests.integration.api.parity_examples import Request
from tests.integration.api.test_parity import _IN_PATH, over_rest, with_words
from tests.integration.api.world import World, in_world

SCOPES = {
    Role.AGENT: "",
    Role.READ_ONLY: "readonly",
    Role.READER: "allocations:read",
    Role.ATTACHER: "allocations:attach",
    Role.MOVER: "data:move",
    Role.USER: "",
    Role.CLAIMING_USER: "sensitive:claim",
    Role.TENANT_ADMIN: "tenant:admin",
    Role.OPERATOR: "operator",
    Role.SYSTEM_ADMIN: "admin",
}
# Who asks, and which tenants the token names; those who may least come first, for what they may may change things.
RELATIONS = {
    "none": ("nina", ()),
    "other": ("paul", ("physics",)),
    "same": ("bob", ("chemistry",)),
    "own": ("alice", ("chemistry",)),
}
MEMBERS = ("same", "own")
MARKERS = ("alice", "bob", "kryptonite", "secret-recipe", "chemistry", "cauldron", "distilling", "brewery", '"a1"')
# Of a colleague's work, where members of the tenant see only their own.
OF_ALICE = ("alice", "secret-recipe", '"a1"')
STREAMS = {"watch", "stream_logs", "follow_step", "stream_metrics"}

REQUESTS: dict[str, Request] = {
    "submit": {"entrypoint": ["true"], "tenant": "chemistry"},
    "submit_batch": {"submissions": [{"entrypoint": ["true"], "tenant": "chemistry"}]},
    "submit_dag": {"allocations": [{"id": "one", "entrypoint": ["true"], "tenant": "chemistry"}]},
    "create_session": {"tenant": "chemistry", "lifecycle": {"walltime": "1h"}},
    "cancel_many": {"ids": ["1"]},
    "wait": {"id": "1", "timeout": 0},
    "update": {"id": "1", "name": "x"},
    "keep_retained": {"id": "1"},
    "launch_step": {"id": "1", "argv": ["true"]},
    "attach": {"id": "1"},
    "share_terminal": {"id": "1", "step": 0, "user": "bob"},
    "unshare_terminal": {"id": "1", "step": 0, "user": "bob"},
    "feed_step": {"id": "1", "step": 0, "data": ""},
    "signal_step": {"id": "1", "step": 0, "signal": 15},
    "signal_allocation": {"id": "1", "signal": "USR1"},
    "resize_step": {"id": "1", "step": 0, "rows": 10, "columns": 10},
    "get_tenant": {"name": "chemistry"},
    "update_tenant": {"name": "chemistry", "max_pending_per_user": 30},
    "tenant_usage": {"name": "chemistry"},
    "user_usage": {"user": "alice"},
    "list_projects": {"tenant": "chemistry"},
    "create_project": {"tenant": "chemistry", "name": "new"},
    "update_project": {"tenant": "chemistry", "name": "kryptonite", "max_nodes": 3},
    "delete_project": {"tenant": "chemistry", "name": "kryptonite"},
    "delete_tenant": {"name": "chemistry"},
    "get_vcluster": {"name": "cauldron"},
    "vcluster_queue": {"name": "cauldron"},
    "get_reservation": {"name": "distilling"},
    "update_vcluster": {"name": "cauldron", "default_walltime": "1h"},
    "get_baseline": {"vcluster": "cauldron"},
    "lookup_service": {"name": "brewery", "tenant": "chemistry"},
    "open_service": {"name": "brewery", "tenant": "chemistry"},
    "set_setting": {"key": "agent.grace_s", "value": "60"},
}


@dataclass
class Said:
    """What came back: `code` of an error, or empty, and the whole answer as text."""

    code: str
    message: str
    text: str

    @property
    def verdict(self) -> str:
        if self.code in ("forbidden", "unauthenticated"):
            return self.code
        # Other things that are missing here, as a step or a backup, are found missing by those who may look.
        is_hidden = self.code == "not_found" and any(
            word in self.message for word in ("no allocation", "no DAG", "unknown tenant", '"cauldron"', '"distilling"')
        )
        return "not_found" if is_hidden else "ok"


Ask = Callable[[Operation, Request, str], Awaitable[Said]]


async def furnish(world: World, visibility: Visibility = Visibility.OWN) -> str:
    """What alice has: an allocation that runs, a DAG, a project, a reservation, a vCluster. Returns the DAG's id."""
    await world.do(SetTenant(tenant=Tenant(name="chemistry", visibility=visibility), create=True))
    await world.do(SetVcluster(vcluster=Vcluster(name="cauldron", tenants=("chemistry",), nodes=("n2",)), create=True))
    alice = world.token("alice", tenants=("chemistry",))
    admin = world.admin
    project = {"tenant": "chemistry", "name": "kryptonite"}
    assert (await world.call("POST", "/projects", project, token=admin)).status == 201
    await world.submit(token=alice, name="secret-recipe", project="kryptonite", tenant="chemistry")
    await world.start_run(1)
    world.links.write("n1", 1, 1, "stdout", b"secret-recipe\n")
    dag = {"name": "secret-recipe", "allocations": [{"id": "x", "entrypoint": ["true"], "project": "kryptonite"}]}
    made = await world.call("POST", "/dags", dag, token=alice)
    assert made.status == 201, made.body
    upkeep = {
        "name": "distilling",
        "start": "2030-01-01",
        "duration": "4h",
        "tenants": ["chemistry"],
        "users": ["alice"],
    }
    assert (await world.call("POST", "/reservations", upkeep, token=admin)).status == 201
    service = {"entrypoint": ["true"], "lifecycle": {"type": "unbounded"}, "expose": [{"name": "brewery", "port": 80}]}
    offered = await world.call("POST", "/allocations", {**service, "tenant": "chemistry"}, token=alice)
    assert offered.status == 201, offered.body
    await world.start_run(int(offered.json()["id"][1:]), "n2")
    return str(made.json()["id"])


def request_for(operation: Operation, dag: str) -> Request:
    known = REQUESTS.get(operation.name)
    if known is not None:
        return dict(known)
    filled = with_words(operation)
    if "{id}" in operation.path:
        family = operation.path.split("/")[1]
        filled["id"] = {"allocations": "1", "sessions": "1", "dags": dag, "nodes": "n1"}.get(family, "x")
    if "{step}" in operation.path:
        filled["step"] = 0
    return filled


async def streamed(world: World, operation: Operation, request: Request, token: str) -> Said:
    """The beginning of a stream over REST; hung up as soon as it has begun."""
    path = _IN_PATH.sub(lambda match: str(request[match[1]]), operation.path)
    begun, hang_up = asyncio.Event(), asyncio.Event()
    got: dict[str, Any] = {"status": 0, "body": b""}

    async def receive() -> dict[str, Any]:
        await hang_up.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        got["status"] = message.get("status", got["status"])
        got["body"] += message.get("body", b"")
        if message["type"] == "http.response.body":
            begun.set()

    task = asyncio.create_task(world.app(world._scope("GET", f"/api/v1{path}", token, None), receive, send))
    async with asyncio.timeout(10):
        await begun.wait()
        hang_up.set()
        await task
    return _said(got["status"], got["body"])


def _said(status: int, body: bytes) -> Said:
    if status < 400:
        return _inside(body.decode())
    error = msgspec.json.decode(body)["error"]
    return Said(error["code"], error["message"], body.decode())


def _inside(text: str) -> Said:
    """Operations on several things answer 200 and say of each how it went."""
    try:
        items = msgspec.json.decode(text)["items"]
        error = items[0]["error"]
        return Said(error["code"], error["message"], text)
    except (msgspec.DecodeError, KeyError, IndexError, TypeError):
        return Said("", "", text)


@asynccontextmanager
async def wire(world: World, kind: str) -> AsyncIterator[Ask]:
    async def rest(operation: Operation, request: Request, token: str) -> Said:
        if operation.name in STREAMS:
            return await streamed(world, operation, request, token)
        answer = await over_rest(world, operation, request, token)
        return _said(answer.status, answer.body)

    if kind == "rest":
        yield rest
        return
    async with grpc_wire.grpc_of(world.services) as channel:

        async def over_grpc(operation: Operation, request: Request, token: str) -> Said:
            answer = await grpc_wire.ask(channel, operation.name, request, token=token, most=1, timeout=2)
            if answer.error is not None:
                return Said(answer.error["code"], answer.error["message"], str(answer.error))
            value = answer.value if answer.value is not None else answer.values
            return _inside(msgspec.json.encode(grpc_wire.said(value), enc_hook=str).decode())

        yield over_grpc


def sees_work(role: Role, relation: str, visibility: Visibility) -> bool:
    """Whether alice's allocations are seen."""
    reach = TABLE[role, Permission.READ]
    if reach is Reach.ALL or relation == "own":
        return True
    return relation == "same" and (reach is Reach.TENANT or visibility is Visibility.TENANT)


def expected(operation: Operation, role: Role, relation: str, visibility: Visibility) -> str:
    """What the table says of this role and this relation, for things that are chemistry's and alice's."""
    reach = TABLE[role, operation.permission]
    if reach is Reach.NONE:
        return "forbidden"
    is_member = relation in MEMBERS
    if operation.name in ("get_vcluster", "vcluster_queue", "get_baseline"):
        return "ok" if is_member or role in (Role.OPERATOR, Role.SYSTEM_ADMIN) else "not_found"
    if operation.name == "get_reservation":
        return "ok" if is_member or role in (Role.OPERATOR, Role.SYSTEM_ADMIN) else "not_found"
    if reach is Reach.ALL:
        return "ok"
    is_seen = sees_work(role, relation, visibility)
    family = operation.path.split("/")[1]
    names_work = "{id}" in operation.path and family in ("allocations", "sessions", "dags")
    if names_work or operation.name == "keep_retained":
        if not is_seen:
            return "not_found"
        may_read = operation.permission is Permission.READ
        return "ok" if relation == "own" or may_read or (is_member and reach is Reach.TENANT) else "forbidden"
    if operation.name == "cancel_many":
        may = relation == "own" or reach is Reach.TENANT
        return "not_found" if not is_seen else "ok" if may else "forbidden"
    return _expected_of_tenant(operation.name, reach, relation, is_member)


def _expected_of_tenant(name: str, reach: Reach, relation: str, is_member: bool) -> str:
    match name:
        case (
            "submit"
            | "submit_batch"
            | "submit_dag"
            | "create_session"
            | "list_projects"
            | "create_project"
            | "update_project"
            | "delete_project"
        ):
            return "ok" if is_member else "forbidden"
        case "lookup_service":
            return "ok" if is_member else "forbidden"
        case "open_service":
            return "ok" if relation == "own" else "forbidden"
        case "get_tenant" | "update_tenant" | "update_vcluster":
            return "ok" if is_member else "not_found"
        case "tenant_usage":
            return "not_found" if not is_member else "ok" if reach is Reach.TENANT else "forbidden"
        case "user_usage":
            if reach is Reach.TENANT:
                return "forbidden" if relation == "none" else "ok"
            return "ok" if relation == "own" else "forbidden"
        case _:
            return "ok"


def token_of(world: World, role: Role, relation: str) -> str:
    user, tenants = RELATIONS[relation]
    kind: Any = "agent" if role is Role.AGENT else "user"
    return world.token(user, tenants=tenants, scope=SCOPES[role], kind=kind)


def leaked(said: Said, request: Request, markers: tuple[str, ...]) -> list[str]:
    asked = str(request)
    return [marker for marker in markers if marker in said.text and marker.strip('"') not in asked]


def hidden_from(role: Role, relation: str, visibility: Visibility) -> tuple[str, ...]:
    """Words that such a caller must not read in any answer."""
    if role in (Role.OPERATOR, Role.SYSTEM_ADMIN):
        return ()
    if relation not in MEMBERS:
        return MARKERS
    return () if sees_work(role, relation, visibility) else OF_ALICE


@pytest.mark.parametrize(
    ("kind", "visibility"),
    [("rest", Visibility.OWN), ("grpc", Visibility.OWN), ("rest", Visibility.TENANT)],
    ids=["rest-own", "grpc-own", "rest-tenant"],
)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_operation_keeps_to_the_table(operation: Operation, kind: str, visibility: Visibility) -> None:
    @in_world
    async def scenario(world: World) -> None:
        request = request_for(operation, await furnish(world, visibility))
        wrong, leaks = [], []
        async with wire(world, kind) as ask:
            for relation in RELATIONS:
                for role in SCOPES:
                    said = await ask(operation, request, token_of(world, role, relation))
                    right = expected(operation, role, relation, visibility)
                    if said.verdict != right:
                        wrong.append(
                            f"{role} {relation}: {said.verdict} ({said.code} {said.message}), expected {right}"
                        )
                    hidden = hidden_from(role, relation, visibility)
                    if operation.permission is Permission.READ_SERVICES and relation in MEMBERS:
                        hidden = ()  # a service is published to its tenant
                    found = leaked(said, request, hidden)
                    if found:
                        leaks.append(f"{role} {relation}: {found} in {said.text[:300]}")
            for token in ("", "rubbish", "a.b.c"):
                assert (await ask(operation, request, token)).code == "unauthenticated"
        assert not wrong, "\n".join(wrong)
        assert not leaks, "\n".join(leaks)

    scenario()


def test_table_is_complete() -> None:
    assert set(TABLE) == {(role, permission) for role in Role for permission in Permission}
    used = {operation.permission for operation in OPERATIONS}
    assert set(Permission) - used <= {Permission.CONNECT_AGENT, Permission.READ_DETAILS}
    assert set(SCOPES) == set(Role)


@in_world
async def test_things_of_other_tenants_are_refused_as_things_that_do_not_exist(world: World) -> None:
    await furnish(world)
    paul = world.token("paul", tenants=("physics",))
    pairs = [
        ("GET", "/allocations/{}", ("a1", "a99"), None),
        ("DELETE", "/allocations/{}", ("a1", "a99"), None),
        ("GET", "/tenants/{}", ("chemistry", "nowhere-at-all"), None),
        ("GET", "/projects?tenant={}", ("chemistry", "nowhere-at-all"), None),
        ("GET", "/events?ids={}", ("a1", "a99"), None),
        ("POST", "/allocations", ("a1", "a99"), {"entrypoint": ["true"], "depends_on": "{}:success"}),
        ("POST", "/allocations", ("chemistry", "nowhere-at-all"), {"entrypoint": ["true"], "tenant": "{}"}),
        ("POST", "/allocations/cancel", ("a1", "a99"), {"ids": ["{}"]}),
    ]
    for method, path, names, body in pairs:
        answers = []
        for name in names:
            filled = (
                None if body is None else msgspec.json.decode(msgspec.json.encode(body).replace(b"{}", name.encode()))
            )
            answer = await world.call(method, path.replace("{}", name), filled, token=paul)
            answers.append(
                (answer.status, answer.body.replace(name.encode(), b"NAME").replace(name[1:].encode(), b"NUMBER"))
            )
        assert answers[0] == answers[1], (method, path)


@in_world
async def test_a_stream_ends_when_its_caller_is_judged_anew_and_may_not_have_it(world: World) -> None:
    class Fickle:
        """A verifier whose issuer changes its mind."""

        scope: str | None = "tenant:admin"

        def verify(self, token: str) -> Any:  # noqa: ANN401 - an identity
            return plain.verify(token)

        async def learn(self) -> None: ...

        async def recheck(self, token: str) -> Any:  # noqa: ANN401 - an identity
            from lattice.ports.site.identity import Unauthenticated

            if self.scope is None:
                raise Unauthenticated("the token was revoked")
            roles = ("TenantAdmin",) if self.scope else ("User",)
            return msgspec.structs.replace(plain.verify(token), roles=roles)

    plain, fickle = world.services.verifier, Fickle()
    world.services.verifier = fickle
    token = world.token("bob", scope="tenant:admin")

    async def nudge() -> None:
        await world.submit(token=world.token("bob"))

    for change, reason in (("", "has changed"), (None, "revoked")):
        fickle.scope = "tenant:admin"
        stream = await world.open("/events", token=token)
        world.clock.ms += 301_000
        await nudge()
        first = await stream.next()
        assert first is not None
        assert first.event == "", "nothing has changed: the stream goes on"
        fickle.scope = change
        world.clock.ms += 200_000
        await nudge()
        second = await stream.next()
        assert second is not None
        assert second.event == "", "five minutes are not over"
        world.clock.ms += 101_000
        await nudge()
        events = [event async for event in _all(stream)]
        assert events[-1].event == "error"
        assert reason in events[-1].data["message"]
        assert events[-1].data["code"] == "unauthenticated"


async def _all(stream: Any) -> AsyncIterator[Any]:  # noqa: ANN401 - a stream and its events
    while (event := await stream.next()) is not None:
        yield event


async def _read_to_the_end(call: Any) -> None:  # noqa: ANN401 - a call of bytes
    while isinstance(await call.read(), bytes):
        continue


@in_world
async def test_a_stream_on_grpc_ends_when_its_caller_leaves_the_tenant(world: World) -> None:
    await furnish(world)
    await world.call("PUT", "/tenants/chemistry", {"members": ["nina"]}, token=world.admin)
    metadata = [("authorization", f"Bearer {world.token('nina', tenants=())}")]
    async with grpc_wire.grpc_of(world.services) as channel:
        method = channel.unary_stream("/lattice.v1.AllocationService/Watch")  # type: ignore[call-arg] # bytes both ways
        call = method(b"", metadata=metadata, timeout=20)
        assert await call.read(), "the stream is open"
        await world.call("PUT", "/tenants/chemistry", {"members": []}, token=world.admin)
        world.clock.ms += 301_000
        await world.submit(token=world.token("alice", tenants=("chemistry",)), project="kryptonite")
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await _read_to_the_end(call)
        assert refusal.value.code() is grpc.StatusCode.UNAUTHENTICATED


@in_world
async def test_the_header_chooses_among_own_tenants_only(world: World) -> None:
    await furnish(world, Visibility.TENANT)
    both = world.token("bob", tenants=("chemistry", "physics"))
    chosen = await world.call("GET", "/allocations", token=both, headers={"X-Lattice-Tenant": "physics"})
    assert chosen.json()["items"] == []
    assert len((await world.call("GET", "/allocations", token=both)).json()["items"]) == 3
    paul = world.token("paul", tenants=("physics",))
    refused = await world.call("GET", "/allocations", token=paul, headers={"X-Lattice-Tenant": "chemistry"})
    assert (refused.status, refused.error["code"]) == (403, "forbidden")
    admin = await world.call("GET", "/allocations", token=world.admin, headers={"X-Lattice-Tenant": "chemistry"})
    assert len(admin.json()["items"]) == 3


@in_world
async def test_what_runs_on_a_node_is_told_to_those_who_may_know_of_it(world: World) -> None:
    await furnish(world, Visibility.TENANT)
    seen = {}
    for user, tenants, scope in (("paul", ("physics",), ""), ("bob", ("chemistry",), ""), ("op", (), "operator")):
        answer = await world.call("GET", "/nodes/n1", token=world.token(user, tenants=tenants, scope=scope))
        seen[user] = answer.json()["allocations"]
        assert answer.json()["holding"] == "whole"
    assert seen == {"paul": [], "bob": ["a1"], "op": ["a1"]}


@in_world
async def test_tenants_may_be_given_members_and_administrators_in_the_state(world: World) -> None:
    await furnish(world, Visibility.TENANT)
    nina = world.token("nina", tenants=())
    assert (await world.call("GET", "/allocations/a1", token=nina)).status == 404
    change = {"members": ["nina", "zoe@example.org"]}
    assert (await world.call("PUT", "/tenants/chemistry", change, token=world.admin)).status == 200
    assert (await world.call("GET", "/allocations/a1", token=nina)).status == 200
    assert (await world.call("DELETE", "/allocations/a1", token=nina)).status == 403
    own = await world.call("POST", "/allocations", {"entrypoint": ["true"], "project": "kryptonite"}, token=nina)
    assert (own.status, own.json()["tenant"]) == (201, "chemistry")
    assert (
        await world.call("PUT", "/tenants/chemistry", {"members": [], "admins": ["nina"]}, token=world.admin)
    ).status == 200
    project = {"tenant": "chemistry", "name": "new"}
    reading = world.token("nina", tenants=(), scope="readonly")
    assert (await world.call("POST", "/projects", project, token=reading)).status == 403
    assert (await world.call("POST", "/projects", project, token=nina)).status == 201
    both = world.token("nina", tenants=("physics",))
    refused = await world.call("POST", "/projects", {"tenant": "physics", "name": "new"}, token=both)
    assert refused.status == 403, "an administrator of one tenant is a member of the other"
    assert (await world.call("DELETE", "/allocations/a1", token=both)).status == 202
    bad = await world.call("PUT", "/tenants/chemistry", {"admins": ["a b"]}, token=world.admin)
    assert (bad.status, "cannot be the name of a user" in bad.error["message"]) == (400, True)


@in_world
async def test_a_stream_ends_when_its_caller_leaves_the_tenant(world: World) -> None:
    """At the latest with the next keep-alive: nothing else happens on a stream whose caller sees no more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rest_events, "KEEP_ALIVE_S", 0.02)
        await _leave_the_tenant(world)


async def _leave_the_tenant(world: World) -> None:
    await furnish(world)
    await world.call("PUT", "/tenants/chemistry", {"members": ["nina"]}, token=world.admin)
    nina = world.token("nina", tenants=())
    stream = await world.open("/events", token=nina)
    await world.call("PUT", "/tenants/chemistry", {"members": []}, token=world.admin)
    world.clock.ms += 301_000
    await world.submit(token=world.token("alice", tenants=("chemistry",)), project="kryptonite")
    events = [event async for event in _all(stream)]
    assert (events[-1].event, events[-1].data["code"]) == ("error", "unauthenticated")
