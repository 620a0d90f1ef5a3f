"""What a node lacks is told with the reason."""

from pathlib import Path

from lattice.agent.containers.node import NOT_ROOT, ContainerSettings, NodeContainers
from lattice.agent.images.node import NodeImages
from lattice.agent.runs.missing import OLD_SHIM, missing_features
from lattice.agent.shim_client import ShimMessage

EVERY_LIMIT = ("memory", "cpu", "pids", "devices", "io")


def lacks(listing: ShimMessage, offered: set[str], reasons: dict[str, str]) -> dict[str, str]:
    return {each.name: each.reason for each in missing_features(listing, offered, reasons, "pmix")}


def test_a_node_that_offers_everything_lacks_nothing() -> None:
    whole = ShimMessage(cgroup=True, limits=EVERY_LIMIT)
    offered = {"cgroup", "confined", "io_limits", "uenv", "container", "pmix"}
    assert lacks(whole, offered, {"uenv": "", "container": ""}) == {}


def test_each_feature_that_is_missing_has_its_reason() -> None:
    found = lacks(ShimMessage(limits=("memory",)), set(), {"uenv": "no loop devices", "container": ""})
    assert found == {
        "cgroup": "control groups cannot be used here",
        "confined": "runs that share this node are not limited in CPU time, processes, devices",
        "container": OLD_SHIM,
        "io_limits": "the kernel has no control groups that slow reading and writing down",
        "pmix": "libpmix or its headers, or a compiler, are not installed",
        "uenv": "no loop devices",
    }


def test_images_and_containers_say_what_is_in_their_way(tmp_path: Path) -> None:
    none = NodeImages(None)
    assert none.why_not() == "the agent has no --cache-dir"
    assert NodeContainers(ContainerSettings(), none, tmp_path, "").why_not() == none.why_not()
    (tmp_path / "file").write_text("")
    broken = NodeImages(tmp_path / "file")
    assert broken.why_not().startswith("the image cache cannot be used")
    some = NodeImages(tmp_path / "cache")
    assert NodeContainers(ContainerSettings(), some, tmp_path, "").why_not() == "no runtime is installed: crun or runc"


def test_containers_of_an_agent_that_is_not_root_are_missing_for_that_reason(tmp_path: Path) -> None:
    images = NodeImages(tmp_path / "cache", is_root=False)
    assert NodeContainers(ContainerSettings(), images, tmp_path, "").why_not() == NOT_ROOT
