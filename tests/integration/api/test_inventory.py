"""What a node is made of, and who sees how much of it."""

from typing import Any

from msgspec import json

from lattice.core.model.nodes.inventory import Inventory, Software
from lattice.daemons.server.local_socket import PEER_USER, LocalAccess
from lattice.ports.nodes.inventories import KnownInventory
from tests.integration.api.world import World, in_world

SECRET = "root=live:http://deploy/image"


class OneInventory:
    """Every node has told the same."""

    def get(self, node: str) -> KnownInventory | None:
        document = json.encode(Inventory(software=Software(kernel="6.1", boot_parameters=SECRET)))
        return KnownInventory(
            fingerprint="f" * 64,
            components={"kernel": "6.1", "boot_parameters": SECRET},
            document=document,
            received_at=1,
            age_s=1.0,
            is_stale=False,
        )

    def refresh(self, node: str) -> bool:
        return False


@in_world
async def test_the_kernels_command_line_is_for_those_who_manage_nodes(world: World) -> None:
    world.services.inventories = OneInventory()
    assert SECRET.encode() in (await world.call("GET", "/nodes/n1/inventory", token=world.admin)).body
    for token in (world.alice, world.token("theo", scope="tenant:admin")):
        answer = await world.call("GET", "/nodes/n1/inventory", token=token)
        assert (answer.status, answer.json()["components"]) == (200, {"kernel": "6.1"})
        assert SECRET.encode() not in answer.body


@in_world
async def test_a_local_account_without_a_token_learns_the_status_of_nodes_alone(world: World) -> None:
    world.services.inventories = OneInventory()
    local = LocalAccess(world.app, lambda user: world.token(user))
    assert await status_of(local, "GET", "/v1/nodes/n1") == 200
    assert await status_of(local, "GET", "/v1/nodes/n1/inventory") == 401
    assert await status_of(local, "GET", "/api/v1/nodes/n1/inventory") == 401
    assert await status_of(local, "GET", "/v1/nodes/n1/inventory/") in (401, 404)
    assert await status_of(local, "GET", "/v1/allocations") == 401
    assert await status_of(local, "POST", "/v1/nodes/n1/drain") == 401


async def status_of(app: LocalAccess, method: str, path: str) -> int:
    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": [], PEER_USER: "bob"}
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:  # noqa: ANN401 - as ASGI has it
        statuses.extend([message["status"]] if "status" in message else [])

    await app(scope, receive, send)
    return statuses[0]
