"""What a vCluster says of images: its default image, signed images alone, nodes that enforce every limit."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.core.machine.commands import RegisterNode
from lattice.core.machine.levels import OLDEST
from lattice.core.model.nodes.nodes import Hardware
from lattice.images.signatures import read_public_key, sign
from lattice.integrations.directory.registry import DirectoryRegistry
from lattice.wire.work.payloads import Work, decode_work
from tests.conftest import require_program
from tests.image_files import make_greeter
from tests.image_keys import make_key
from tests.integration.api.test_upgrades import at_level
from tests.integration.api.world import Response, World, in_world

LABEL = "greeter/1.0:v1"
UNSIGNED = "greeter/2.0:v1"
PATH = f"/store/x.squashfs@sha256:{'d' * 64}"


@pytest.fixture(scope="module", autouse=True)
def site() -> Iterator[DirectoryRegistry]:
    require_program("mksquashfs")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        private, public = make_key(root, "ed25519", "site")
        digest = make_greeter(root / "greeter" / "1.0" / "v1.squashfs")
        (root / "greeter" / "1.0" / "v1.squashfs.sig").write_bytes(sign(digest, private.read_bytes()))
        make_greeter(root / "greeter" / "2.0" / "v1.squashfs")
        SITE.append(DirectoryRegistry(root, (read_public_key("site", public.read_bytes()),)))
        yield SITE[0]
        SITE.clear()


SITE: list[DirectoryRegistry] = []


async def furnish(world: World, **fields: object) -> None:
    world.services.images = SITE[0]
    hardware = Hardware(cpus=4, memory_mb=4096, features=("confined", "container", "io_limits", "uenv"))
    await world.do(RegisterNode(node="n1", hardware=hardware))
    answer = await world.call("PUT", "/vclusters/default", fields, token=world.admin)
    assert answer.status == 200, answer.error


def work_of(world: World, number: int) -> Work:
    return decode_work(world.state.payload_of(world.state.allocations[number]))


async def submit(world: World, **fields: object) -> Response:
    return await world.call("POST", "/allocations", {"entrypoint": ["true"], **fields})


@in_world
async def test_default_image_is_mounted_unless_another_or_none_is_named(world: World) -> None:
    await furnish(world, default_uenv=LABEL)
    assert (await world.call("GET", "/vclusters/default")).json()["default_uenv"] == LABEL
    for fields, mounted in (
        ({}, [LABEL]),
        ({"uenv": UNSIGNED}, [UNSIGNED]),
        ({"uenv": "none"}, []),
        ({"image": PATH}, []),
    ):
        answer = await submit(world, **fields)
        assert answer.status == 201, answer.error
        number = answer.json()["number"]
        work = work_of(world, number)
        assert [each.reference.partition("@")[0] for each in work.images] == mounted
        assert ("uenv" in world.state.allocations[number].request.features) is bool(mounted)
    member = {"id": "a", "entrypoint": ["true"]}
    dag = await world.call("POST", "/dags", {"name": "d", "allocations": [member]})
    assert dag.status == 201, dag.error
    assert work_of(world, max(world.state.allocations)).images
    line = {"program": "sbatch", "argv": [], "script": "#!/bin/sh\ntrue\n", "cwd": "/tmp"}
    slurm = await world.call("POST", "/slurm/commands", line)
    assert slurm.status == 200, slurm.error
    assert work_of(world, max(world.state.allocations)).images


@in_world
async def test_default_image_that_is_gone_refuses_the_work_by_name(world: World) -> None:
    await furnish(world, default_uenv="gone/1.0:v1")
    answer = await submit(world)
    assert 'the default image of vCluster "default" cannot be used' in answer.error["message"]
    assert answer.status >= 400
    assert (await submit(world, uenv="none")).status == 201


@in_world
async def test_unsigned_images_are_refused_where_signatures_are_required(world: World) -> None:
    await furnish(world, require_signed=True)
    assert (await submit(world, uenv=LABEL)).status == 201
    assert work_of(world, 1).images[0].signed_by == "site"
    assert (await submit(world)).status == 201
    for fields, name in (
        ({"uenv": UNSIGNED}, UNSIGNED),
        ({"uenv": f"{PATH}:/opt"}, "x.squashfs"),
        ({"image": PATH}, "x.squashfs"),
    ):
        answer = await submit(world, **fields)
        assert answer.status == 403, fields
        assert "takes signed images only" in answer.error["message"]
        assert name in answer.error["message"]
    await furnish(world, require_signed=False)
    assert (await submit(world, uenv=UNSIGNED)).status == 201


@in_world
async def test_strict_confinement_asks_for_nodes_that_enforce_every_limit(world: World) -> None:
    await furnish(world, confinement="strict")
    number = (await submit(world, resources={"constraints": {"features": ["uenv"]}})).json()["number"]
    assert world.state.allocations[number].request.features == ("confined", "uenv")
    await furnish(world, confinement="strict", read_mb_s=100)
    number = (await submit(world)).json()["number"]
    assert world.state.allocations[number].request.features == ("confined", "io_limits")
    await furnish(world, confinement="normal")
    number = (await submit(world)).json()["number"]
    assert world.state.allocations[number].request.features == ()


@in_world
async def test_what_cannot_be_a_default_image_is_refused(world: World) -> None:
    for value, words in (("/a.squashfs", "a path cannot be"), ("a b", "is not an image"), ("./x", "a path cannot be")):
        answer = await world.call("PUT", "/vclusters/default", {"default_uenv": value}, token=world.admin)
        assert (answer.status, words in answer.error["message"]) == (400, True)
    cleared = await world.call("PUT", "/vclusters/default", {"default_uenv": None}, token=world.admin)
    assert cleared.json()["default_uenv"] == ""


@at_level(OLDEST)
async def test_these_fields_need_the_level_of_this_release(world: World) -> None:
    for fields in ({"default_uenv": LABEL}, {"require_signed": True}, {"confinement": "strict"}, {"write_mb_s": 9}):
        answer = await world.call("PUT", "/vclusters/default", fields, token=world.admin)
        assert (answer.status, "demands of vcluster" in answer.error["message"]) == (409, True)


@in_world
async def test_scratch_of_a_size_asks_for_nodes_that_can_bound_it(world: World) -> None:
    hardware = Hardware(cpus=4, memory_mb=4096, features=("container", "scratch"))
    await world.do(RegisterNode(node="n1", hardware=hardware))
    made = (await submit(world, scratch="20G")).json()
    assert world.state.allocations[made["number"]].request.features == ("scratch",)
    assert work_of(world, made["number"]).scratch_mb == 20 << 10
    shown = (await world.call("GET", f"/allocations/{made['id']}?details=true")).json()["details"]
    assert shown["scratch_mb"] == 20 << 10
    contained = await submit(world, scratch="1G", image=PATH)
    assert world.state.allocations[contained.json()["number"]].request.features == ("container", "scratch")
    for fields, words in (
        ({"scratch": "1M"}, "1 MB is not possible"),
        ({"scratch": "much"}, "scratch"),
    ):
        answer = await submit(world, **fields)
        assert (answer.status, words in answer.error["message"]) == (400, True), answer.error


@at_level(OLDEST)
async def test_scratch_of_a_size_needs_the_level_of_this_release(world: World) -> None:
    answer = await submit(world, scratch="1G")
    assert (answer.status, answer.error["message"].startswith("scratch of a size needs level")) == (409, True)
