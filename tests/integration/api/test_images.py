"""Images of submissions: resolved to digests before anything is in the log, whichever way they are named."""

from pathlib import Path
from typing import Any

import pytest

from lattice.core.machine.commands import RegisterNode
from lattice.core.model.nodes.nodes import Hardware
from lattice.images.references import ImageReference
from lattice.integrations.directory.registry import DirectoryRegistry
from lattice.ports.nodes.measures import MissingFeature
from lattice.ports.site.images import FoundImage, RegistryUnavailable
from lattice.wire.work.payloads import Work, decode_work
from tests.conftest import require_program
from tests.image_files import make_greeter, make_image
from tests.integration.api.grpc_wire import ask, grpc_of
from tests.integration.api.world import Response, World, in_world

LABEL = "greeter/1.0:v1"
OTHER = "bare/1.0:v1"
DIGEST = "d" * 64
PATH = f"/store/x.squashfs@sha256:{DIGEST}"


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_program("mksquashfs")
    root = tmp_path_factory.mktemp("registry")
    make_greeter(root / "greeter" / "1.0" / "v1.squashfs")
    make_image(root / "bare" / "1.0" / "v1.squashfs", {"hello": "hi"}, None)
    return root


async def furnish(world: World, images: Path) -> None:
    world.services.images = DirectoryRegistry(images)
    await world.do(RegisterNode(node="n1", hardware=Hardware(cpus=4, memory_mb=4096, features=("uenv", "container"))))


def work_of(world: World, number: int) -> Work:
    return decode_work(world.state.payload_of(world.state.allocations[number]))


@pytest.mark.parametrize(
    "body",
    [
        {"uenv": LABEL, "view": "default"},
        {"uenv": "greeter", "view": "greeter:default"},
        {"environment": {"uenv": LABEL, "view": "default"}},
        {"environment": {"uenv": LABEL}, "uenv": LABEL, "view": "default"},
    ],
)
def test_name_becomes_the_digest_of_its_bytes(body: dict[str, Any], images: Path) -> None:
    @in_world
    async def check(world: World) -> None:
        await furnish(world, images)
        made = await world.submit(**body)
        work = work_of(world, made["number"])
        (image,) = work.images
        assert image.reference == f"{LABEL}@sha256:{image.digest}"
        assert (image.source, image.by_user) == (str(images / "greeter/1.0/v1.squashfs"), False)
        assert work.views == (body.get("view", "default"),)
        assert work.env == {}
        assert world.state.allocations[made["number"]].request.features == ("uenv",)

    check()


@in_world
async def test_path_with_its_digest_is_taken_for_the_node_to_read_as_the_user(world: World) -> None:
    await world.do(RegisterNode(node="n1", hardware=Hardware(cpus=4, memory_mb=4096, features=("uenv", "container"))))
    made = await world.submit(uenv=f"{PATH}:/user-environment", view="any")
    (image,) = work_of(world, made["number"]).images
    assert (image.source, image.digest, image.mount) == ("/store/x.squashfs", DIGEST, "/user-environment")
    assert image.by_user


def test_images_of_a_dag_and_over_grpc_are_resolved_too(images: Path) -> None:
    @in_world
    async def check(world: World) -> None:
        await furnish(world, images)
        body = {"allocations": [{"id": "a", "entrypoint": "true", "uenv": LABEL, "tools_uenv": f"{OTHER}:/user-tools"}]}
        assert (await world.call("POST", "/dags", body)).status == 201
        async with grpc_of(world.services) as channel:
            fields = {"entrypoint": ["true"], "uenv": LABEL, "view": "default"}
            answer = await ask(channel, "submit", fields, token=world.alice)
            assert answer.error is None
        works = [work_of(world, number) for number in sorted(world.state.allocations)]
        assert [[image.mount for image in work.images] for work in works] == [["", "/user-tools"], [""]]

    check()


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"uenv": "greter/1.0:v1"}, 'uenv: unknown image "greter/1.0:v1"', f"did you mean {LABEL}"),
    ({"uenv": LABEL, "view": "defalt"}, 'view: unknown view "defalt" of greeter/1.0:v1', "did you mean default?"),
    ({"uenv": OTHER}, "does not say where to mount it", f"write {OTHER}:/user-environment"),
    ({"uenv": f"{OTHER}:/proc"}, "nothing may be mounted on /proc", "/user-environment"),
    ({"uenv": LABEL, "tools_uenv": f"{OTHER}:/user-environment/x"}, "mounted on each other", "REF:/other/place"),
    ({"view": "default"}, "view: a view needs an image", "uenv"),
    ({"uenv": "/store/x.squashfs"}, "is given without its digest", "PATH@sha256:DIGEST"),
    ({"uenv": f"./x@sha256:{DIGEST}"}, "is not an absolute path", "PATH@sha256:DIGEST"),
    ({"uenv": f"{LABEL}@sha256:{DIGEST}"}, f"not sha256:{DIGEST}", ""),
    ({"uenv": LABEL, "environment": {"uenv": OTHER}}, "environment.uenv: says", "one of the two"),
    ({"uenv": LABEL, "environment": {"image": "x"}}, "image and uenv exclude each other", "one of the two"),
    ({"environment": {"image": "greter/1.0:v1"}}, 'image: unknown image "greter/1.0:v1"', f"did you mean {LABEL}"),
    ({"image": "oci:/store/x:v1"}, "is given without its digest", "lattice submit"),
    ({"image": f"oci:x:v1@sha256:{DIGEST}"}, "is not an absolute path", "lattice submit"),
    ({"image": LABEL, "container": {"mounts": ["/a:/proc/x"]}}, "nothing may be mounted on /proc/x", "/data"),
    ({"image": LABEL, "container": {"mounts": ["a:/x"]}}, "a is not an absolute path", "/SRC:/DST"),
    ({"container": {"writable": True}}, "options of a container need an image", "image"),
]


@pytest.mark.parametrize(("body", "message", "hint"), REFUSED)
def test_mistake_is_refused_with_a_hint_and_nothing_is_done(
    body: dict[str, Any], message: str, hint: str, images: Path
) -> None:
    @in_world
    async def check(world: World) -> None:
        await furnish(world, images)
        for path, whole in (
            ("/allocations", {"entrypoint": "true", **body}),
            ("/dags", {"allocations": [{"id": "a", "entrypoint": "true", **body}]}),
        ):
            answer: Response = await world.call("POST", path, whole)
            assert answer.status == 400, answer.error
            assert message in answer.error["message"]
            assert hint in answer.error.get("hint", "")
        assert world.state.allocations == {}

    check()


def test_image_is_infeasible_where_no_node_mounts_any(images: Path) -> None:
    @in_world
    async def check(world: World) -> None:
        world.services.images = DirectoryRegistry(images)
        answer = await world.call("POST", "/allocations", {"entrypoint": "true", "uenv": LABEL})
        assert (answer.status, answer.error["code"]) == (422, "infeasible")
        assert "features=uenv" in answer.error["requested"]

    check()


@in_world
async def test_name_is_refused_where_there_is_no_registry(world: World) -> None:
    answer = await world.call("POST", "/allocations", {"entrypoint": "true", "uenv": LABEL})
    assert (answer.status, "this cluster has no image registry" in answer.error["message"]) == (400, True)


@in_world
async def test_registry_that_cannot_be_read_is_unavailable(world: World) -> None:
    class Gone(DirectoryRegistry):
        async def resolve(self, reference: ImageReference) -> FoundImage:
            raise RegistryUnavailable("the image registry cannot be read: Stale file handle")

    world.services.images = Gone(Path("/nowhere"))
    answer = await world.call("POST", "/allocations", {"entrypoint": "true", "uenv": LABEL})
    assert (answer.status, "Stale file handle" in answer.error["message"]) == (503, True)


@in_world
async def test_step_has_the_images_of_its_allocation_and_no_others(world: World) -> None:
    made = await world.submit()
    body = {"argv": ["true"], "environment": {"uenv": LABEL}}
    answer = await world.call("POST", f"/allocations/{made['id']}/steps", body)
    assert "environment.uenv: a step has the images of its allocation" in answer.error["message"]


def test_sbatch_means_the_same_images(images: Path) -> None:
    @in_world
    async def check(world: World) -> None:
        await furnish(world, images)
        script = f"#!/bin/sh\n#SBATCH --uenv={LABEL}\n#SBATCH --view=other\ntrue\n"
        body = {"program": "sbatch", "argv": ["x.sh"], "cwd": "/", "script": script}
        answer = (await world.call("POST", "/slurm/commands", body)).json()
        assert answer["stdout"] == "Submitted batch job 1\n", answer
        assert (len(work_of(world, 1).images), work_of(world, 1).views) == (1, ("other",))
        refused = (await world.call("POST", "/slurm/commands", {**body, "argv": ["--view=othr", "x.sh"]})).json()
        assert 'unknown view "othr"' in refused["stderr"]
        assert "did you mean other?" in refused["stderr"]

    check()


def test_sbatch_means_the_same_container(images: Path) -> None:
    @in_world
    async def check(world: World) -> None:
        await furnish(world, images)
        script = f"""#!/bin/sh
#SBATCH --container-image={LABEL}
#SBATCH --container-mounts=/a:/b:ro,/c
#SBATCH --container-writable --container-workdir=/b
#SBATCH --no-container-mount-home --container-name=tools
true
"""
        body = {"program": "sbatch", "argv": ["x.sh"], "cwd": "/", "script": script}
        answer = (await world.call("POST", "/slurm/commands", body)).json()
        assert answer["stdout"] == "Submitted batch job 1\n", answer
        container = work_of(world, 1).container
        assert container is not None
        assert container.image.reference.startswith(f"{LABEL}@sha256:")
        assert (container.binds, container.workdir) == (("/a:/b:ro", "/c:/c"), "/b")
        assert (container.writable, container.no_home, container.name) == (True, True, "tools")
        assert world.state.allocations[1].request.features == ("container",)
        for words, message in [
            (["--container-image=nvcr.io#nvidia/pytorch:24.01-py3"], "takes no images from nvcr.io"),
            (
                ["--container-image=greter/1.0:v1"],
                f'--container-image: unknown image "greter/1.0:v1" (did you mean {LABEL}',
            ),
            (["--container-image=/x.sqsh"], "is given without its digest"),
            (["--container-name=a/b"], '--container-name: "a/b" is not the name of a container'),
            (["--container-name=x:later"], '--container-name: "later" is not a way to use a container'),
            (["--container-name=x:exec"], '--container-name: nothing runs in "x" yet (leave :exec out)'),
            (
                ["--container-mounts=/a:/proc"],
                "--container-mounts: nothing may be mounted on /proc (choose a directory",
            ),
            (["--container-mounts=tmpfs:/x"], "--container-mounts: tmpfs is not an absolute path (write /SRC:/DST)"),
            (["--container-workdir=x"], '--container-workdir: "x" is not an absolute path'),
            (["--uenv=greeter"], "image and uenv exclude each other"),
        ]:
            refused = (await world.call("POST", "/slurm/commands", {**body, "argv": [*words, "x.sh"]})).json()
            assert message in refused["stderr"], refused
        alone = {**body, "argv": ["--container-writable", "--wrap=true"], "script": None}
        assert "add --container-image" in (await world.call("POST", "/slurm/commands", alone)).json()["stderr"]
        named = {**alone, "argv": ["--container-name=x", "--wrap=true"]}
        said = (await world.call("POST", "/slurm/commands", named)).json()["stderr"]
        assert 'a container with name "x" does not exist, and --container-image is not set' in said

    check()


@in_world
async def test_images_that_no_node_mounts_are_refused_with_the_reason_of_the_nodes(world: World) -> None:
    for name in ("n1", "n2"):
        await world.do(RegisterNode(node=name, hardware=Hardware(cpus=4, memory_mb=4096)))
    world.links.open.add("n1")
    world.links.missing["n1"] = (MissingFeature(name="uenv", reason="squashfuse is not installed"),)
    answer = await world.call("POST", "/allocations", {"entrypoint": "true", "uenv": PATH})
    assert (answer.status, answer.error["code"]) == (422, "infeasible")
    assert answer.error["message"] == "uenv: no node of this cluster mounts images: squashfuse is not installed"
    assert "install squashfuse on nodes" in answer.error["hint"]
    assert not world.state.allocations
