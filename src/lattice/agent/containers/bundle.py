"""The description of a container for an OCI runtime (config.json), and the few files that no image can bring along."""

import glob
import grp
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from lattice.agent.containers.commands import NO_COMMANDS, NODE, Commands
from lattice.agent.containers.holder import SCRATCH, WORK, Source
from lattice.agent.containers.oci_hooks import Hooks
from lattice.agent.images.layouts import Unpacked
from lattice.agent.runs.launch import Account
from lattice.agent.shim_client import STANDARD_PATH
from lattice.images.containers import parse_bind
from lattice.ports.nodes.images import ContainerOrder

# Directories of the system: the image's own are the ones that count, whatever directory the work was submitted from.
_OF_IMAGE = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/sbin", "/sys", "/usr")
# Devices that work may need; the run's device rules decide which of them can be opened.
_DEVICES = ("nvidia*", "kfd", "dri", "infiniband", "cxi*", "gdrdrv", "xpmem", "knem", "fuse")
# Where the image knows better than the submitting shell.
_OF_SYSTEM = frozenset(
    {"PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "MANPATH", "PKG_CONFIG_PATH", "LANG", "LC_ALL"}
)
_OURS = ("LATTICE_", "SLURM_", "PMI", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
_PERSON = frozenset({"HOME", "USER", "LOGNAME", "TMPDIR"})
_NODE_FILES = ("/etc/hosts", "/etc/resolv.conf", "/etc/localtime")
HOLD = "/.lattice/hold"
DISK = "disk"  # the shim's word for a file system in a file
ROOT_LINE = "root:x:0:0:root:/root:/bin/sh"


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """config.json, further files of the folder, what the user's processes must open first, and the file with the run's scratch in it."""

    config: dict[str, object]
    files: Mapping[str, str]
    sources: tuple[Source, ...]
    disk: str = ""


def container_environment(environment: Mapping[str, str], about: Unpacked, programs: str) -> dict[str, str]:
    """The run's variables with those of the image. The image decides where programs and libraries are, the submission the rest."""
    image = dict(about.env)
    result = {**environment}
    for name in _OF_SYSTEM & result.keys():
        del result[name]
    for name, value in image.items():
        if name.startswith(_OURS) or name in _PERSON:
            continue
        result.setdefault(name, value)
    if not result.get("PATH"):
        result["PATH"] = STANDARD_PATH
    if programs and programs not in result["PATH"].split(os.pathsep):
        result["PATH"] = f"{result['PATH']}{os.pathsep}{programs}"
    return result


def make_bundle(
    folder: Path,
    order: ContainerOrder,
    about: Unpacked,
    person: Account,
    cwd: str,
    state_dir: Path,
    own_mounts: Sequence[Mapping[str, object]],
    hooks: Hooks,
    name: str,
    commands: Commands = NO_COMMANDS,
) -> Bundle:
    """`own_mounts` is what the run sees instead of the node's /tmp and /dev/shm, where it has such, and its data."""
    work = folder / WORK
    sources: list[Source] = []
    disk, own_mounts = _with_disk(own_mounts, str(work / SCRATCH))
    places, own_state = _places([each for each in own_mounts if not each.get("rights")], str(state_dir))
    mounts = [*_system(work), *_devices(), *places]
    mounts += [_bind(path, path, "ro") for path in _NODE_FILES if os.path.exists(path)]
    mounts += [_bind(str(folder / each), f"/etc/{each}", "ro") for each in ("passwd", "group")]
    mounts.append(_bind(str(folder / "hold"), HOLD, "ro"))
    for path in _homes(order, person, cwd):
        mounts.append(_bind(str(work / "src" / str(len(sources))), path))
        sources.append(Source(path, must=False))
    for text in order.binds:
        bind = parse_bind(text)
        mounts.append(_bind(str(work / "src" / str(len(sources))), bind.target, "rro" if bind.is_read_only else "rw"))
        sources.append(Source(bind.source))
    for each in own_mounts:
        if each.get("rights"):  # as a bind that the user writes: opened by the user, never by root
            is_read_only = each["kind"] == "read_only"
            place = str(work / "src" / str(len(sources)))
            mounts.append(_bind(place, str(each["target"]), "rro" if is_read_only else "rw"))
            sources.append(Source(str(each["source"])))
    # Last: the script and the token lie there, and nothing may hide them, but for the run's own scratch where that lies there too.
    mounts += [_bind(str(state_dir), str(state_dir), "rro"), *own_state]
    if commands.folder:
        mounts += [_bind(each, f"{NODE}{each}", "ro") for each in commands.places]
        mounts.append(_bind(commands.folder, commands.target, "ro"))
    config: dict[str, object] = {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": [HOLD],
            "env": [f"PATH={STANDARD_PATH}"],
            "cwd": "/",
            "noNewPrivileges": True,
            "capabilities": {},
        },
        "root": {"path": "rootfs", "readonly": not order.writable},
        "mounts": mounts,
        "hooks": hooks.config,
        "linux": {
            "namespaces": [{"type": "mount"}],
            "rootfsPropagation": "private",
            "cgroupsPath": f"/lattice-hold-{name}",
        },
    }
    files = {"passwd": passwd_text(about, person), "group": group_text(about, person), "hold": "#!/bin/sh\n"}
    return Bundle(config=config, files=files, sources=tuple(sources), disk=disk)


def _with_disk(own: Sequence[Mapping[str, object]], place: str) -> tuple[str, list[Mapping[str, object]]]:
    """The file with the run's scratch in it, where it has a size, and the mounts with what lies in it taken from where it is mounted."""
    disk = next((each for each in own if each["kind"] == DISK), None)
    if disk is None:
        return "", list(own)
    folder = str(disk["target"])
    moved: list[Mapping[str, object]] = [{"kind": "bind", "target": folder, "source": place}]
    for each in own:
        source = str(each.get("source"))
        if each is not disk and (source == folder or source.startswith(f"{folder}/")):
            moved.append({**each, "source": f"{place}{source.removeprefix(folder)}"})
        elif each is not disk:
            moved.append(each)
    return str(disk["source"]), moved


def _homes(order: ContainerOrder, person: Account, cwd: str) -> list[str]:
    found: list[str] = []
    wanted = [] if order.no_home else [person.home]
    for path in (*wanted, cwd):
        plain = os.path.normpath(path) if path else ""
        if not plain.startswith("/") or plain == "/" or _is_below(plain, (*_OF_IMAGE, *found, "/tmp")):  # noqa: S108
            continue
        found.append(plain)
    return found


def _is_below(path: str, above: Sequence[str]) -> bool:
    return any(path == each or path.startswith(f"{each}/") for each in above)


def _system(work: Path) -> list[dict[str, object]]:
    return [
        _bind(str(work / "proc"), "/proc", "noexec"),
        {
            "destination": "/dev",
            "type": "tmpfs",
            "source": "tmpfs",
            "options": ["nosuid", "strictatime", "mode=755", "size=64m"],
        },
        {
            "destination": "/dev/pts",
            "type": "devpts",
            "source": "devpts",
            "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"],
        },
        _bind(str(work / "sys"), "/sys", "rro"),
    ]


def _devices() -> list[dict[str, object]]:
    found = sorted({path for name in _DEVICES for path in glob.glob(f"/dev/{name}")})
    return [{"destination": path, "type": "bind", "source": path, "options": ["rbind", "nosuid"]} for path in found]


def _places(
    own: Sequence[Mapping[str, object]], state_dir: str
) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Where temporary files go: the run's own place where it has one, else the node's. Apart what lies below the agent's directory."""
    given = {str(each["target"]): each for each in own}
    mounts: list[dict[str, object]] = []
    for path in ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue"):  # noqa: S108
        each = given.pop(path, None)
        if each is not None and each["kind"] == "tmpfs":
            options = ["nosuid", "nodev", "mode=1777"]
            mounts.append({"destination": path, "type": "tmpfs", "source": "tmpfs", "options": options})
        elif each is not None:
            mounts.append(_bind(str(each["source"]), path))
        elif os.path.isdir(path):
            mounts.append(_bind(path, path))
    mounts += [_bind(str(each["source"]), target) for target, each in given.items() if each["kind"] == "bind"]
    mounts += [
        _bind(str(each["source"]), target, "rro") for target, each in given.items() if each["kind"] == "read_only"
    ]
    inner = [each for each in mounts if _is_below(str(each["destination"]), (state_dir,))]
    return [each for each in mounts if each not in inner], inner


def _bind(source: str, target: str, *more: str) -> dict[str, object]:
    options = ["rbind", "nosuid", "nodev", *more]
    return {"destination": target, "type": "bind", "source": source, "options": options}


def passwd_text(about: Unpacked, person: Account) -> str:
    """The image's accounts and the one who is inside, under his own name and number."""
    lines = [
        line for line in (about.passwd or ROOT_LINE).splitlines() if line and _keeps(line, person.name, person.uid)
    ]
    if person.uid != 0 and not any(line.startswith("root:") for line in lines):
        lines.insert(0, ROOT_LINE)
    lines.append(f"{person.name}:x:{person.uid}:{person.gid}::{person.home}:{person.shell}")
    return "\n".join(lines) + "\n"


def group_text(about: Unpacked, person: Account) -> str:
    lines = [line for line in (about.group or "root:x:0:").splitlines() if line]
    for number in dict.fromkeys((person.gid, *person.groups)):
        try:
            name = grp.getgrgid(number).gr_name
        except (KeyError, OSError):
            name = f"group{number}"
        lines = [line for line in lines if _keeps(line, name, number)]
        lines.append(f"{name}:x:{number}:{person.name if number != person.gid else ''}")
    return "\n".join(lines) + "\n"


def _keeps(line: str, name: str, number: int) -> bool:
    fields = line.split(":")
    return len(fields) > 2 and fields[0] != name and fields[2] != str(number)
