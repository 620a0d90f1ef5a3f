"""What lies on the node for a run that can be asked for checkpoints: the newest request, and the shared memory.

`STATE/checkpoints/NUMBER.RUN/`: the folder and `request.json` are the agent's, and read by the user; `shm` is the user's.
"""

import contextlib
import os
import shutil
from pathlib import Path

import msgspec

from lattice.agent.checkpoints import shared_memory
from lattice.ports.nodes.agents import StartOrder
from lattice.ports.nodes.run_keys import RunKey

FOLDER = "checkpoints"
REQUEST = "request.json"
SHM = "shm"
HINTED = "hinted"
REGISTERED = "registered"
SOCKET = "grpc"
SHMEM = "shmem"
GRPC = "grpc"
RESUME_FROM = "LATTICE_RESUME_FROM"
VARIABLES = (
    "LATTICE_CHECKPOINT_PROTOCOL",
    "LATTICE_CHECKPOINT_SIGNAL",
    "LATTICE_CHECKPOINT_DIR",
    "LATTICE_CHECKPOINT_REQUEST",
    "LATTICE_CHECKPOINT_SHM",
    "LATTICE_CHECKPOINT_SOCKET",
    "LATTICE_CHECKPOINT_PORT",
    RESUME_FROM,
)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """request.json, as the work reads it before it writes checkpoint `n` into the directory `path`."""

    n: int
    path: str
    deadline: float  # seconds since 1970
    reason: str
    asked: float


def control_folder(state_dir: Path, key: RunKey) -> Path:
    return state_dir / FOLDER / f"{key.number}.{key.run}"


def checkpoint_variables(order: StartOrder, state_dir: Path) -> dict[str, str]:
    """What processes of the run find in their environment."""
    setup = order.checkpoint
    if setup is None:
        return {}
    variables = {RESUME_FROM: setup.resume_from} if setup.resume_from else {}
    if not setup.strategy:
        return variables
    folder = control_folder(state_dir, order.key)
    variables |= {
        "LATTICE_CHECKPOINT_PROTOCOL": setup.protocol,
        "LATTICE_CHECKPOINT_DIR": setup.directory,
        "LATTICE_CHECKPOINT_REQUEST": str(folder / REQUEST),
    }
    if setup.protocol == SHMEM:
        return variables | {"LATTICE_CHECKPOINT_SHM": str(folder / SHM)}
    if setup.protocol == GRPC:
        way = {"PORT": str(setup.port)} if setup.port else {"SOCKET": str(folder / SOCKET)}
        return variables | {f"LATTICE_CHECKPOINT_{name}": value for name, value in way.items()}
    return variables | {"LATTICE_CHECKPOINT_SIGNAL": str(setup.signal)}


def make_control(order: StartOrder, state_dir: Path, owner: tuple[int, int]) -> None:
    """The folder of a run that is about to start; one that is there stays. Raises OSError."""
    setup = order.checkpoint
    if setup is None or not setup.strategy:
        return
    folder = control_folder(state_dir, order.key)
    _make_passable(folder.parent)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(0o750)
        if os.geteuid() == 0:
            os.chown(folder, 0, owner[1])
        folder.chmod(0o750)
    if setup.protocol == SHMEM and not (folder / SHM).exists():
        shared_memory.make(folder / SHM, owner)


def _make_passable(folder: Path) -> None:
    if not folder.is_dir():
        folder.mkdir(0o711, parents=True, exist_ok=True)
        folder.chmod(0o711)


def remove_control(state_dir: Path, key: RunKey) -> None:
    shutil.rmtree(control_folder(state_dir, key), ignore_errors=True)


def write_request(folder: Path, request: Request, gid: int) -> None:
    """In place in one step: a reader sees the one before or this one. Not forced to disk: a machine that falls takes the run with it.

    Raises OSError.
    """
    draft = folder / f".{REQUEST}"
    draft.unlink(missing_ok=True)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
    try:
        os.write(fd, msgspec.json.encode(request) + b"\n")
        if os.geteuid() == 0:
            os.fchown(fd, 0, gid)
        os.fchmod(fd, 0o640)
    finally:
        os.close(fd)
    draft.replace(folder / REQUEST)


def read_request(folder: Path) -> Request | None:
    """The newest request; None when there was none."""
    try:
        return msgspec.json.decode((folder / REQUEST).read_bytes(), type=Request)
    except (OSError, msgspec.DecodeError):
        return None


def note_registered(folder: Path, n: int, count: int) -> None:
    """How many processes heard the request, for an agent that follows this one."""
    (folder / REGISTERED).write_text(f"{n} {count}")


def were_registered(folder: Path, n: int) -> int:
    """How many processes heard this request, as far as an agent that died could note it."""
    try:
        noted, _, count = (folder / REGISTERED).read_text().partition(" ")
    except OSError:
        return 0
    return int(count) if noted == str(n) and count.isdigit() else 0


def note_hinted(folder: Path, n: int) -> None:
    (folder / HINTED).write_text(str(n))


def was_hinted(folder: Path, n: int) -> bool:
    """Whether the work got the hint for this request, as far as an agent that died could note it."""
    try:
        return (folder / HINTED).read_text() == str(n)
    except OSError:
        return False
