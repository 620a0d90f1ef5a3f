"""The audit chain as it leaves a cluster: an export, the keys it was signed with, and an archived segment."""

import json
from pathlib import Path

from tests.integration.api.test_audit import auditing, drain, export
from tests.integration.api.world import World

EXPORT, KEYS, SEGMENTS = "export.jsonl", "keys.json", "segments"


async def record_audit(target: Path) -> None:
    folder = target / "audit"
    (folder / SEGMENTS).mkdir(parents=True)
    world = World()
    await world.start()
    async with auditing(world) as service:
        for _ in range(4):
            await drain(world, "n1")
            await service.seal()
        await service.archive_due()
        old = (await world.call("GET", "/audit/keys", token=world.admin)).json()["items"]
        new = (await world.call("POST", "/audit/keys", {}, token=world.admin)).json()
        await drain(world, "n2")
        (folder / EXPORT).write_bytes(await export(world))
        keys = {key["id"]: key["public"] for key in (*old, new)}
        (folder / KEYS).write_text(json.dumps(keys, indent=1) + "\n")
        objects = world.services.objects
        assert objects is not None
        async for name in objects.names(""):
            (folder / SEGMENTS / name.replace("/", "_")).write_bytes(await objects.get(name))
    await world.stop()
