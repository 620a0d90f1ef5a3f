"""Where runs of a node have their scratch directories, and what these can be."""

import argparse
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from lattice.agent.hooks.scratch import NO_SCRATCH, ScratchSettings
from lattice.agent.hooks.scratch_files import lies_in_memory, why_no_memory, why_no_sizes
from lattice.config.places import IN_MEMORY
from lattice.daemons.agent.choices import CannotStart

TMP = Path("/tmp")  # noqa: S108
FOLDER = "scratch"  # of the state directory, where scratch lies in memory


def add_scratch(add: Callable[..., argparse.Action]) -> None:
    add(
        "--scratch-dir",
        metavar="DIR",
        help="give each run a directory below this one, removed at its end, and a private /tmp and /dev/shm; "
        "tmpfs = in memory, which counts as memory of the run",
    )


def tmp_dir(options: argparse.Namespace) -> Path | None:
    """Whose size is that of the node's temporary disk; None where that is its memory."""
    if options.scratch_dir == IN_MEMORY:
        return None
    return Path(options.scratch_dir) if options.scratch_dir else Path(options.tmp_dir)


def scratch_settings(options: argparse.Namespace, uid: int) -> ScratchSettings:
    """As far as it is known without making anything. Raises CannotStart for one that cannot work."""
    if not options.scratch_dir:
        return NO_SCRATCH
    state_dir = options.state_dir.absolute()
    in_memory = options.scratch_dir == IN_MEMORY
    folder = state_dir / FOLDER if in_memory else Path(options.scratch_dir).absolute()
    if uid != 0:
        raise CannotStart("--scratch-dir needs an agent that runs as root")
    for hidden in (state_dir, folder):
        if hidden.is_relative_to(TMP):
            raise CannotStart(f"{hidden} is below {TMP}, which runs do not see with --scratch-dir")
    return ScratchSettings(folder=folder, in_memory=in_memory)


def prepared_scratch(scratch: ScratchSettings) -> ScratchSettings:
    """Makes the directory, closed to others, and tries what it can be. Before anything runs beside. Raises CannotStart."""
    folder = scratch.folder
    if folder is None:
        return scratch
    try:
        folder.mkdir(mode=0o711, parents=True, exist_ok=True)
        folder.chmod(0o711)
        in_memory = scratch.in_memory or lies_in_memory(folder)
    except OSError as error:
        raise CannotStart(f"cannot use the scratch directory {folder}: {error.strerror}") from error
    if not in_memory:
        return replace(scratch, problem=why_no_sizes(folder))
    if problem := why_no_memory(folder):
        raise CannotStart(f"--scratch-dir: {problem}")
    return replace(scratch, in_memory=True)
