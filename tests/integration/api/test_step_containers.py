"""srun with a container of its own inside a job: what reaches the step, and what is refused with a way out."""

from typing import Any

import pytest

from lattice.core.machine.commands import RegisterNode
from lattice.core.model.nodes.nodes import Hardware
from lattice.ports.nodes.images import ContainerOrder
from tests.integration.api.test_slurm_steps import Desk, job_of_two_nodes, srun
from tests.integration.api.world import World, in_world

DIGEST = "d" * 64
IMAGE = f"/store/x.squashfs@sha256:{DIGEST}"
OTHER = f"oci:/store/images:v2@sha256:{'e' * 64}"


async def asked_of(world: World, *words: str) -> ContainerOrder | None:
    desk, inside = await job_of_two_nodes(world)
    answer = await srun(world, *words, "hostname", **inside)
    assert (answer["code"], answer["stderr"]) == (0, "")
    return desk.asked[-1].container


async def with_runtime(world: World, *options: str) -> tuple[Desk, dict[str, str]]:
    for node in ("n1", "n2"):
        hardware = Hardware(cpus=4, memory_mb=4096, features=("container",))
        await world.do(RegisterNode(node=node, hardware=hardware))
    return await job_of_two_nodes(world, *options)


@in_world
async def test_step_has_an_image_of_its_own_with_what_it_asks_for(world: World) -> None:
    container = await asked_of(
        world,
        f"--container-image={IMAGE}",
        "--container-mounts=/a:/b:ro",
        "--container-writable",
        "--container-workdir=/b",
        "--no-container-mount-home",
        "--container-name=tools:create",
    )
    assert container is not None
    assert (container.image.digest, container.image.source, container.image.by_user) == (
        DIGEST,
        "/store/x.squashfs",
        True,
    )
    assert (container.binds, container.writable, container.workdir, container.no_home) == (
        ("/a:/b:ro",),
        True,
        "/b",
        True,
    )
    assert (container.name, container.way) == ("tools", "create")


@pytest.mark.parametrize(
    ("words", "way"), [("tools", ""), ("tools:auto", ""), ("tools:exec", "exec"), ("t:no_exec", "no_exec")]
)
def test_name_alone_means_a_container_that_is_there(words: str, way: str) -> None:
    @in_world
    async def check(world: World) -> None:
        container = await asked_of(world, f"--container-name={words}")
        assert container is not None
        assert (container.image.digest, container.name, container.way) == ("", words.partition(":")[0], way)

    check()


@in_world
async def test_step_without_options_has_no_container_of_its_own(world: World) -> None:
    assert await asked_of(world) is None


REFUSED = [
    (("--container-name=",), "--container-name: argument required"),
    (("--container-image=",), "--container-image: argument required"),
    (("--uenv=",), "--uenv: argument required"),
    (("--container-name=a/b",), '--container-name: "a/b" is not the name of a container'),
    (("--container-name=a:sometimes",), "NAME:WAY with auto, create, exec, no_exec"),
    (("--container-name=a:create",), "--container-name: :create needs an image (say what a is made of)"),
    (("--container-name=a:exec", "--container-mounts=/a"), "joins a container that runs, as it is"),
    (("--container-writable",), "options of a container need an image"),
    (("--container-image=/x.sqsh",), "--container-image: /x.sqsh is given without its digest"),
    ((f"--container-image={IMAGE}", "--container-mounts=/a:/proc"), "nothing may be mounted on /proc"),
    (("--container-save=/x.sqsh", "--container-name=a"), "--container-save: containers are not saved"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED)
def test_what_a_step_cannot_have_is_refused_with_a_way_out(words: tuple[str, ...], message: str) -> None:
    @in_world
    async def check(world: World) -> None:
        desk, inside = await job_of_two_nodes(world)
        answer = await srun(world, *words, "hostname", **inside)
        assert answer["code"] == 1
        assert message in answer["stderr"]
        assert desk.asked == []

    check()


@in_world
async def test_job_in_a_container_has_that_one_and_no_other(world: World) -> None:
    desk, inside = await with_runtime(world, f"--container-image={IMAGE}", "--container-name=mine")
    for words in ((), ("--container-name=mine",), ("--container-name=mine:exec",)):
        assert (await srun(world, *words, "hostname", **inside))["code"] == 0
        assert desk.asked[-1].container is None
    for word in (f"--container-image={OTHER}", "--container-name=other", "--container-name=mine:no_exec"):
        answer = await srun(world, word, "hostname", **inside)
        assert answer["code"] == 1
        assert 'a step has the container of its allocation, which has the name "mine"' in answer["stderr"]


@in_world
async def test_vcluster_for_signed_images_takes_no_others_in_steps(world: World) -> None:
    answer = await world.call("PUT", "/vclusters/default", {"require_signed": True}, token=world.admin)
    assert answer.status == 200, answer.body
    _, inside = await job_of_two_nodes(world)
    refused = await srun(world, f"--container-image={IMAGE}", "hostname", **inside)
    assert "takes signed images only" in refused["stderr"]


@in_world
async def test_launch_takes_the_same_fields_and_shows_the_name_of_a_jobs_container(world: World) -> None:
    await with_runtime(world)
    made = await world.submit(image=IMAGE, container={"name": "whole"})
    shown: dict[str, Any] = (await world.call("GET", f"/allocations/{made['id']}?details=true")).json()
    assert shown["details"]["container"]["name"] == "whole"
    answer = await world.call("POST", "/allocations", {"entrypoint": "true", "container": {"name": "x"}})
    assert 'container.name: a container with name "x" does not exist when work begins' in answer.error["message"]
