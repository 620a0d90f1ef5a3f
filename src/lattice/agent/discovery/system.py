"""The software below the work: kernel, boot parameters, base image, scratch space, runtimes."""

import os
import re
import shutil
from collections.abc import Sequence

from lattice.agent.discovery.tools import ToolFailed, run_tool
from lattice.agent.discovery.tree import Tree
from lattice.core.model.nodes.inventory import Scratch, Software

BASE_IMAGE_FILE = "etc/lattice/base-image"
HIDDEN = "(hidden)"
VERSION_WITHIN_S = 5.0
SCRATCH = ("/scratch", "/local_scratch", "/local/scratch", "/nvme", "/tmp")  # noqa: S108 - looked at, never written to
RUNTIMES = ("apptainer", "crun", "enroot", "podman", "runc", "sarus", "singularity", "squashfuse", "uenv")
_REMOTE = ("nfs", "lustre", "gpfs", "beegfs", "ceph", "cifs", "wekafs", "autofs", "fuse", "9p", "afs")
_SECRET = re.compile(r"token|passw|secret|credential|private|(^|[._-])(api|psk|key)([._-]|$)", re.IGNORECASE)
_USER_INFO = re.compile(r"(?<=://)[^/\s@]+@")
_VERSION = re.compile(r"\d+(\.\d+)+[\w.+~-]*")
_OSTREE = re.compile(r"(?<=ostree=)\S*?([0-9a-f]{40,64})")


def read_software(tree: Tree) -> Software:
    kernel = "proc/sys/kernel"
    parameters = f"{tree.text('proc/cmdline')} ".partition(" -- ")[0].strip()  # the rest is for the first process
    release = _os_release(tree.text("etc/os-release") or tree.text("usr/lib/os-release"))
    return Software(
        os=release.get("PRETTY_NAME", "") or release.get("ID", ""),
        kernel=tree.text(f"{kernel}/osrelease"),
        kernel_build=tree.text(f"{kernel}/version"),
        boot_parameters=without_secrets(parameters),
        base_image=_base_image(tree, parameters, release),
    )


def without_secrets(parameters: str) -> str:
    """Everybody in the cluster may read the inventory: values that look like secrets stay here."""
    words = []
    for word in parameters.split():
        name, equals, value = word.partition("=")
        words.append(
            f"{name}={HIDDEN}" if equals and _SECRET.search(name) else name + equals + _USER_INFO.sub("", value)
        )
    return " ".join(words)


def _os_release(text: str) -> dict[str, str]:
    lines = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
    return {name.strip(): value.strip().strip("\"'") for name, _, value in lines}


def _base_image(tree: Tree, parameters: str, release: dict[str, str]) -> str:
    """What the site wrote down, else what the image says of itself; empty when neither."""
    told = tree.text(BASE_IMAGE_FILE).partition("\n")[0][:256]
    if told:
        return told
    found = _OSTREE.search(parameters)
    if found:
        return f"ostree:{found.group(1)}"
    return " ".join(filter(None, (release.get("IMAGE_ID", ""), release.get("IMAGE_VERSION", ""))))


def read_scratch(tree: Tree, places: Sequence[str] = SCRATCH) -> tuple[Scratch, ...]:
    """Local file systems under the usual names; what hangs on the network is not asked, it might not answer."""
    kinds = {}
    for line in tree.text("proc/self/mounts").splitlines():
        words = line.split()
        if len(words) > 2:
            kinds[words[1]] = words[2]
    found = []
    for place in places:
        kind = kinds.get(place, "")
        if kind.startswith(_REMOTE) or not tree.is_machine:
            continue
        if kind or place == "/tmp":  # noqa: S108
            found += _measured(place, kind or kinds.get("/", ""))
    return tuple(found)


def _measured(place: str, kind: str) -> list[Scratch]:
    try:
        room = os.statvfs(place)
    except OSError:
        return []
    return [Scratch(path=place, filesystem=kind, size_bytes=room.f_blocks * room.f_frsize)]


def read_runtimes() -> dict[str, str]:
    """Which are present; their versions are asked for later, which takes longer."""
    return {name: "" for name in RUNTIMES if shutil.which(name)}


def read_versions(runtimes: dict[str, str]) -> dict[str, str]:
    return {name: version or _version(name) for name, version in runtimes.items()}


def _version(name: str) -> str:
    try:
        said = run_tool([name, "--version"], VERSION_WITHIN_S)
    except ToolFailed:
        return ""
    found = _VERSION.search(said.decode(errors="replace"))
    return found.group() if found else ""
