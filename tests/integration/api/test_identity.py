"""Who may do what: tokens, roles, the whole operation table."""

import base64
import json
from typing import Any

import jwt
import pytest

from lattice.api.auth.tokens import sign_token
from tests.integration.api.world import NOW_MS, SECRET, World, in_world

NOW_S = NOW_MS // 1000
CLAIMS: dict[str, Any] = {"sub": "alice", "tenants": ["default"], "exp": NOW_S + 60, "iat": NOW_S}


def forged(header: dict[str, str], claims: dict[str, Any], signature: bytes = b"") -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part(header)}.{part(claims)}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


def signed(algorithm: str = "HS256", secret: bytes = SECRET, **claims: object) -> str:
    return jwt.encode({**CLAIMS, **claims}, secret, algorithm=algorithm)


def tampered() -> str:
    head, _, tail = signed().split(".")
    body = base64.urlsafe_b64encode(json.dumps({**CLAIMS, "scope": "admin"}).encode()).decode().rstrip("=")
    return f"{head}.{body}.{tail}"


BAD_TOKENS = {
    "garbage": "x",
    "three dots": "a.b.c",
    "not ascii": "ä.ö.ü",
    "other secret": signed(secret=b"f" * 32),
    "other algorithm": signed("HS512", secret=SECRET * 2),
    "no algorithm": forged({"alg": "none", "typ": "JWT"}, CLAIMS),
    "no algorithm, spelt otherwise": forged({"alg": "NonE"}, CLAIMS),
    "tampered": tampered(),
    "no subject": signed(sub=""),
    "subject is no name": signed(sub="a\nb"),
    "subject too long": signed(sub="x" * 200),
    "tenants no list": signed(tenants="default"),
    "tenant no name": signed(tenants=[1]),
    "scope no text": signed(scope=["admin"]),
    "kind unknown": signed(kind="god"),
    "allocation no number": signed(allocation="1"),
    "not yet valid": signed(nbf=NOW_S + 60),
    "expiry no number": signed(exp=True),
    "huge": "x" * 100_000,
}


@pytest.mark.parametrize("token", BAD_TOKENS.values(), ids=BAD_TOKENS.keys())
def test_bad_token_is_refused_without_saying_why(token: str) -> None:
    @in_world
    async def scenario(world: World) -> None:
        response = await world.call(
            "GET", "/whoami", headers={"Authorization": f"Bearer {token}".encode().decode("latin-1")}, token=""
        )
        assert response.status == 401
        assert response.error["code"] == "unauthenticated"
        assert response.error["message"] == "the token is not valid"
        assert response.headers["www-authenticate"] == "Bearer"

    scenario()


@in_world
async def test_missing_token_is_asked_for(world: World) -> None:
    for headers in ({}, {"Authorization": "Basic eDp5"}, {"Authorization": "Bearer "}, {"Authorization": "Bearer"}):
        response = await world.call("GET", "/whoami", token="", headers=headers)
        assert response.status == 401
        assert "Bearer TOKEN" in response.error["message"]


@in_world
async def test_expired_token_says_when_it_expired_even_if_it_was_known(world: World) -> None:
    token = world.token("alice", lifetime_s=60)
    assert (await world.call("GET", "/whoami", token=token)).status == 200
    world.clock.ms += 60_000
    response = await world.call("GET", "/whoami", token=token)
    assert response.status == 401
    assert "expired at 2026-03-05T08:41:00.000Z" in response.error["message"]


@in_world
async def test_whoami_tells_what_the_token_says(world: World) -> None:
    token = world.token("carol", tenants=("physics", "default"), scope="operator openid", account="c1")
    assert (await world.call("GET", "/whoami", token=token)).json() == {
        "user": "carol",
        "account": "c1",
        "tenant": "physics",
        "tenants": ["physics", "default"],
        "roles": ["Operator"],
        "kind": "user",
        "allocation": None,
        "expires_at": "2026-04-04T08:40:00.000Z",
    }


@in_world
async def test_an_unknown_tenant_in_the_header_is_refused_with_those_that_exist(world: World) -> None:
    for path in ("/whoami", "/allocations", "/usage"):
        response = await world.call("GET", path, token=world.admin, headers={"X-Lattice-Tenant": "nope"})
        assert (response.status, response.error["code"]) == (404, "not_found"), path
        assert "default" in response.error["hint"]


@in_world
async def test_token_inside_an_allocation_is_never_more_than_its_user(world: World) -> None:
    number = (await world.submit())["number"]
    token = world.token("alice", scope="admin", kind="allocation", allocation=number)
    view = (await world.call("GET", "/whoami", token=token)).json()
    assert (view["roles"], view["kind"], view["allocation"]) == (["User"], "allocation", number)
    plain = signed(allocation=number, scope="admin")
    assert (await world.call("GET", "/whoami", token=plain)).json()["roles"] == ["User"]


@in_world
async def test_token_inside_an_allocation_ends_with_it(world: World) -> None:
    number = (await world.submit())["number"]
    token = world.token("alice", kind="allocation", allocation=number)
    await world.start_run(number)
    assert (await world.call("GET", "/whoami", token=token)).status == 200
    await world.finish(number)
    refusal = await world.call("GET", "/whoami", token=token)
    assert (refusal.status, refusal.error["code"]) == (401, "unauthenticated")
    assert f"allocation a{number} has ended" in refusal.error["message"]
    await world.archive(number)
    assert (await world.call("GET", "/whoami", token=token)).status == 401
    for number in (None, 10_000):
        foreign = world.token("alice", kind="allocation", allocation=number)
        assert (await world.call("GET", "/whoami", token=foreign)).status == 401


@in_world
async def test_public_addresses_need_no_token(world: World) -> None:
    health = await world.call("GET", "/healthz", token="", prefix="")
    assert (health.status, health.json()) == (200, {"status": "ok"})
    assert (await world.call("GET", "/metrics", token="", prefix="")).status == 200
    discovery = await world.call("GET", "/auth/discovery", token="")
    assert discovery.json() == {
        "kind": "hmac",
        "issuer": None,
        "client_id": None,
        "idp_url": None,
        "scopes": [],
        "token": None,
        "client_secret": None,
    }


@in_world
async def test_readonly_token_changes_nothing(world: World) -> None:
    await world.submit()
    token = world.token("alice", scope="readonly")
    assert (await world.call("GET", "/allocations/a1", token=token)).status == 200
    for method, path, body in [
        ("POST", "/allocations", {"entrypoint": ["true"]}),
        ("DELETE", "/allocations/a1", None),
        ("POST", "/nodes/n1/drain", {}),
    ]:
        response = await world.call(method, path, body, token=token)
        assert response.status == 403
        assert "ReadOnly" in response.error["current"]
    assert len(world.state.allocations) == 1


@in_world
async def test_tenant_administrator_changes_work_of_the_tenant_only(world: World) -> None:
    await world.submit()
    await world.submit(token=world.token("paul", tenants=("physics",)))
    chief = world.token("chief", scope="tenant:admin")
    assert (await world.call("DELETE", "/allocations/a1", token=chief)).status == 202
    assert (await world.call("DELETE", "/allocations/a2", token=chief)).status == 404


@in_world
async def test_refusal_names_the_owner_to_those_who_may_see(world: World) -> None:
    await world.submit()
    response = await world.call("DELETE", "/allocations/a1", token=world.token("bob"))
    assert response.status == 403
    assert "alice" in response.error["message"]


@in_world
async def test_token_inside_an_allocation_ends_with_its_run(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    token = sign_token(
        SECRET,
        user="alice",
        issued_at_s=NOW_MS // 1000,
        lifetime_s=60,
        tenants=["default"],
        kind="allocation",
        allocation=1,
        run=1,
    )
    assert (await world.call("GET", "/allocations/a1", token=token)).status == 200
    await world.call("POST", "/allocations/a1/requeue", {"hold": True})
    await world.finish(1)
    assert world.state.allocations[1].state == "Pending"
    refused = await world.call("GET", "/allocations/a1", token=token)
    assert (refused.status, "run 1 of allocation a1 has ended" in refused.error["message"]) == (401, True)


@pytest.mark.parametrize("header", [[], [(b"authorization", b"Bearer nonsense")]])
def test_the_body_of_a_stranger_is_not_read(header: list[tuple[bytes, bytes]]) -> None:
    @in_world
    async def check(world: World) -> None:
        statuses: list[int] = []

        async def receive() -> dict[str, Any]:
            raise AssertionError("the body was asked for")

        async def send(message: Any) -> None:  # noqa: ANN401 - as ASGI has it
            statuses.extend([message["status"]] if "status" in message else [])

        scope = {"type": "http", "method": "POST", "path": "/v1/allocations", "query_string": b""}
        headers = [(b"content-type", b"application/json"), (b"content-length", b"4000000"), *header]
        await world.app({**scope, "headers": headers}, receive, send)
        assert statuses == [401]

    check()
