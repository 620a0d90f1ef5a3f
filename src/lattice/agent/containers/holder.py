"""The file system of a container, made by an OCI runtime and held until the shim has it.

A small script makes a mount namespace and a process namespace, mounts the image, lets the runtime create the container and waits.
Where steps are to find the files again, another script mounts them first in a namespace that stays: each step's is a copy of that one.
Its last process dies with it and with the agent, and everything it mounted was mounted in its own namespace only: no crash leaves a
mount, a loop device or a process behind. What a user wants to have mounted is opened by a process of that user, so that no user
sees what he may not read, and no link can be exchanged meanwhile.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from lattice.agent.containers.owning import OWN, owning
from lattice.agent.shim_client import STANDARD_PATH

SHELL = "/bin/sh"
UNSHARE = ("unshare", "--mount", "--propagation", "slave", "--pid", "--fork", "--kill-child")
WORK = "work"
SCRATCH = "scratch"  # below it: where the run's scratch is mounted, if it has a size
MAX_SAID = 2000
MAKE_WITHIN_S = 60.0  # a file server that does not answer must not keep a run from its end

ENTER = ("nsenter", "--mount={}")

# The files of a container that has a name, in a namespace of their own, to which steps come later. Arguments: image, place, mark, options of the memory.
KEEP = (
    OWN
    + r"""
image=$1 place=$2
{
    mount -t tmpfs -o "mode=755,nosuid,nodev$4" lattice "$place" &&
    mkdir "$place/lower" "$place/upper" "$place/spare" "$place/rootfs" &&
    mount -t squashfs -o loop,ro,nosuid,nodev "$image" "$place/lower" && own "$place" &&
    mount -t overlay -o "nosuid,nodev,lowerdir=$place/lower,upperdir=$place/upper,workdir=$place/spare" lattice "$place/rootfs" &&
    echo "$3" >"$place/mark"
} 2>&1 || { echo "failed image cannot mount it"; exit 1; }
echo "ready $$"
read -r end
exit 0
"""
)

# Arguments: folder, image, mark, runtime, name, uid, gid, groups, the file of the run's scratch, then the
# user's sources, each with `must` or `may`.
# With a mark the image is the place where files are kept under that mark, in the namespace in which this begins.
SCRIPT = (
    OWN
    + r"""
folder=$1 image=$2 mark=$3 runtime=$4 name=$5 uid=$6 gid=$7 groups=$8 disk=$9
shift 9
if [ -n "$groups" ]; then rights="--groups $groups"; else rights=--clear-groups; fi
work=$folder/work
fail() { echo "failed $*"; exit 1; }
{
    mount -t tmpfs -o mode=755,nosuid,nodev lattice "$work" &&
    mkdir "$work/lower" "$work/upper" "$work/spare" "$work/rootfs" "$work/state" "$work/proc" "$work/sys" "$work/src" &&
    if [ -n "$mark" ]; then
        read -r found <"$image/mark" && [ "$found" = "$mark" ] && mount --bind "$image/rootfs" "$work/rootfs"
    else
        mount -t squashfs -o loop,ro,nosuid,nodev "$image" "$work/lower" && own "$work" &&
        mount -t overlay -o "nosuid,nodev,lowerdir=$work/lower,upperdir=$work/upper,workdir=$work/spare" lattice "$work/rootfs"
    fi &&
    mount --rbind /proc "$work/proc" && mount --rbind /sys "$work/sys" && mount -t proc proc /proc &&
    cp "$folder"/config.json "$work/" && mkfifo "$work/said"
} 2>&1 || fail "image cannot mount it"
if [ -n "$disk" ]; then
    { mkdir "$work/scratch" && mount -t ext4 -o loop,nosuid,nodev "$disk" "$work/scratch"; } 2>&1 || fail "disk cannot mount it"
fi
number=0
while [ $# -gt 0 ]; do
    at=$work/src/$number
    setpriv --reuid "$uid" --regid "$gid" $rights "$0" -c \
        'if [ -p "$0" ]; then echo ": it is a named pipe" >&2; exit 1; fi; exec 3<"$0" || exit 1; if [ -d "$0" ]; then echo directory; else echo file; fi; exec sleep 600' "$2" \
        </dev/null >"$work/said" 2>"$work/why" &
    reader=$!
    read -r kind <"$work/said" || kind=
    if [ "$kind" = directory ]; then mkdir "$at"; elif [ "$kind" = file ]; then : >"$at"; fi
    if [ -n "$kind" ]; then
        mount --rbind "/proc/$reader/fd/3" "$at" || fail "source $number cannot mount it"
    elif [ "$1" = must ]; then
        fail "source $number $(tail -n 1 "$work/why")"
    else
        mkdir "$at"
    fi
    kill "$reader" 2>/dev/null
    wait "$reader" 2>/dev/null
    number=$((number + 1))
    shift 2
done
case $runtime in
*crun) mount -t tmpfs -o ro lattice /sys/fs/cgroup 2>/dev/null; set -- --cgroup-manager=disabled ;;
esac
"$runtime" --root "$work/state" "$@" create --bundle "$work" --pid-file "$work/pid" "$name" </dev/null >"$work/log" 2>&1 ||
    fail "runtime $(tail -n 1 "$work/log")"
echo "ready $(cat "$work/pid")"
read -r end
"$runtime" --root "$work/state" "$@" delete --force "$name" >/dev/null 2>&1
exit 0
"""
)


class CannotHold(Exception):
    """The container could not be made; the text is for the user."""


class SourceRefused(Exception):
    """The user's source with this number cannot be mounted; the text says why."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(why)
        self.number = number


class Source(msgspec.Struct, frozen=True):
    """A directory or file that the user wants to see inside; one that `must` be there, or an empty directory instead."""

    path: str
    must: bool = True


class Held(msgspec.Struct, frozen=True):
    """A container that is there. Its namespace can be opened under this path until it is let go."""

    process: asyncio.subprocess.Process
    namespace: str

    async def let_go(self) -> None:
        """A process that has opened the namespace keeps it; everything else ends."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.process.wait(), 5.0)
        await _kill(self.process)


class Base(msgspec.Struct, frozen=True):
    """Files that are kept: the namespace in which they lie at `place`, beside a file that says `mark`. Without a mark `place` is an image
    that is seen there."""

    namespace: str
    place: Path
    mark: str


async def keep(
    image: Path, place: Path, mark: str, most_mb: int, within: str = "", owner: tuple[int, int] | None = None
) -> Held:
    """The image with a layer above it that can be written, for containers that are made of it later. Raises CannotHold.

    It takes `most_mb` of memory at most; 0 = half of the machine's. `within` is a namespace, none = that of the node.
    With `owner` (uid, gid) root's files of the image are his, where the kernel can do that.
    """
    size = f",size={most_mb}m" if most_mb else ""
    words = (SHELL, "-c", KEEP, SHELL, str(image), str(place), mark, size)
    entered = (*_entered(within), "unshare", "--mount", "--propagation", "slave")
    process, said = await _begin((*entered, *words), owning(owner))
    return Held(process, f"/proc/{said}/ns/mnt")


async def hold(
    folder: Path,
    image: Path | Base,
    runtime: str,
    name: str,
    rights: tuple[int, int, Sequence[int]],
    sources: Sequence[Source],
    disk: str = "",
    owner: tuple[int, int] | None = None,
) -> Held:
    """`folder` has config.json and belongs to this container alone; `disk` is a file with a file system for it, if it has one; `owner` as
    for `keep`, of an image that is not kept.

    Raises CannotHold and SourceRefused."""
    uid, gid, groups = rights
    (folder / WORK).mkdir(mode=0o700, exist_ok=True)
    where = (str(image.place), image.mark) if isinstance(image, Base) else (str(image), "")
    words = [str(folder), *where, runtime, name, str(uid), str(gid), ",".join(map(str, groups)), disk]
    for source in sources:
        words += ["must" if source.must else "may", source.path]
    entered = _entered(image.namespace if isinstance(image, Base) else "")
    process, said = await _begin((*entered, *UNSHARE, SHELL, "-c", SCRIPT, SHELL, *words), owning(owner))
    return Held(process, f"/proc/{process.pid}/root/proc/{said}/ns/mnt")


def _entered(namespace: str) -> list[str]:
    return [word.format(namespace) for word in ENTER] if namespace else []


async def _begin(words: Sequence[str], variables: Mapping[str, str]) -> tuple[asyncio.subprocess.Process, str]:
    """A script that is ready, and the process that it names then. Raises CannotHold and SourceRefused."""
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={"PATH": STANDARD_PATH, "LC_ALL": "C", **variables},
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise CannotHold(f"cannot start {words[0]}: {error.strerror}") from error
    try:
        try:
            said = await asyncio.wait_for(_first_words(process), MAKE_WITHIN_S)
        except TimeoutError:
            raise CannotHold(f"it could not be made within {MAKE_WITHIN_S:g} s") from None
        word, _, rest = said.partition(" ")
        if word != "ready" or not rest.isdigit():
            raise _problem(rest if word == "failed" else said)
        return process, rest
    except BaseException:
        await _kill(process)
        raise


async def _first_words(process: asyncio.subprocess.Process) -> str:
    """The verdict, or whatever was said instead of one."""
    heard: list[str] = []
    if process.stdout is None:
        return ""
    while line := await process.stdout.readline():
        text = line.decode("utf-8", "replace").strip()
        if text.startswith(("ready ", "failed ")):
            return f"{text} {' '.join(heard)}".strip() if text.startswith("failed ") else text
        heard.append(text[:MAX_SAID])
    return " ".join(heard)


def _problem(said: str) -> Exception:
    what, _, why = said.partition(" ")
    if what == "source":
        number, _, why = why.partition(" ")
        return SourceRefused(int(number), why.rsplit(": ", 1)[-1] or "it cannot be read")
    if what == "image":
        return CannotHold(f"the node {why}".strip())
    if what == "disk":
        return CannotHold(f"the node {why} (the scratch of the run)")
    if what == "runtime":
        return CannotHold(f"the container runtime refused it: {why}")
    return CannotHold(f"the container could not be made: {said or 'no word of it'}")


async def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()
