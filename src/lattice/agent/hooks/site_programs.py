"""The site's own programs around a run: the prologue before anything of it starts, the epilogue after all of it has ended.

They run as the agent's user, with a clean environment that names the run, and are killed with all their processes when they take
longer than they may.
"""

import asyncio
import logging
import os
import signal

import msgspec

from lattice.agent.hooks.protocol import Finished, HookFailed, Launch
from lattice.agent.shim_client import STANDARD_PATH
from lattice.ports.nodes.agents import StartOrder

DEFAULT_TIMEOUT_S = 30.0
MAX_SAID = 400
STOPPING_S = 5.0

_log = logging.getLogger(__name__)


class SiteHooks(msgspec.Struct, frozen=True, kw_only=True):
    """Paths of programs; empty = there is none. Those of a directory come by name: before the single prologue, after the single epilogue.

    The directories are read for each run, so that a site changes them without a restart. Each program has `timeout_s` of its own.
    """

    prologue: str = ""
    epilogue: str = ""
    prologue_dir: str = ""
    epilogue_dir: str = ""
    timeout_s: float = DEFAULT_TIMEOUT_S

    @property
    def has_prologue(self) -> bool:
        return bool(self.prologue or self.prologue_dir)

    @property
    def has_epilogue(self) -> bool:
        return bool(self.epilogue or self.epilogue_dir)

    def prologues(self) -> list[str]:
        """In the order in which they run. Raises HookFailed."""
        return [*programs_in(self.prologue_dir), *filter(None, (self.prologue,))]

    def epilogues(self) -> list[str]:
        """The reverse: what was prepared last is cleared up first. Raises HookFailed."""
        return [*filter(None, (self.epilogue,)), *reversed(programs_in(self.epilogue_dir))]


def programs_in(folder: str) -> list[str]:
    """Files that begin with a digit and may be executed, by name: 10-mount, 20-network. Raises HookFailed."""
    if not folder:
        return []
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.name[0].isdigit() and entry.is_file())
    except OSError as error:
        raise HookFailed(f"the programs in {folder} cannot be read: {error.strerror}") from error
    return [path for path in (os.path.join(folder, name) for name in names) if os.access(path, os.X_OK)]


def hook_environment(order: StartOrder, node_id: str) -> dict[str, str]:
    """What a hook knows of the run."""
    return {
        "PATH": STANDARD_PATH,
        "LATTICE_ALLOC_ID": order.allocation_id,
        "LATTICE_RUN": str(order.key.run),
        "LATTICE_NODE_ID": node_id,
        "LATTICE_USER": order.user,
        "LATTICE_JOB_NAME": order.name,
        "LATTICE_NODELIST": ",".join(order.nodes),
    }


async def run_hook(path: str, environment: dict[str, str], timeout_s: float) -> None:
    """Returns when the program ended well. Raises HookFailed."""
    try:
        process = await asyncio.create_subprocess_exec(
            path,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environment,
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise HookFailed(f"{path} cannot be run: {error.strerror}") from error
    try:
        said, _ = await asyncio.wait_for(process.communicate(), timeout_s)
    except TimeoutError:
        _kill_all(process.pid)
        await process.wait()
        raise HookFailed(f"{path} took longer than {timeout_s:g} s") from None
    if process.returncode:
        how = f"exit code {process.returncode}" if process.returncode > 0 else f"signal {-process.returncode}"
        last = said[-MAX_SAID:].decode(errors="replace").strip()
        raise HookFailed(f"{path} ended with {how}{f': {last}' if last else ''}")


def _kill_all(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        _log.debug("the hook ended by itself")


class SiteProgramsHook:
    """Prologue and epilogue as a launch hook. It leaves the environment of the epilogue, so that a later agent runs it alike."""

    name = "site_programs"
    undoes_unrecorded = True

    def __init__(self, programs: SiteHooks, node_id: str) -> None:
        self._programs = programs
        self._node_id = node_id

    @property
    def timeout_s(self) -> float:
        """A program is stopped and named by `run_hook`; this is for what hangs beside it."""
        try:
            count = max(1, len(self._programs.prologues()), len(self._programs.epilogues()))
        except HookFailed:
            count = 1
        return count * self._programs.timeout_s + STOPPING_S

    def applies(self, order: StartOrder) -> bool:
        return self._programs.has_prologue or self._programs.has_epilogue

    async def prepare(self, launch: Launch) -> None:
        environment = hook_environment(launch.order, self._node_id)
        programs = self._programs.prologues()
        if self._programs.has_epilogue and len(programs) > 1:
            launch.leave(environment)  # what the first ones did is undone when a later one fails
        for program in programs:
            await run_hook(program, environment, self._programs.timeout_s)
        if self._programs.has_epilogue:
            launch.leave(environment)

    async def undo(self, finished: Finished) -> None:
        """All of them, also after one that failed."""
        if not self._programs.has_epilogue:
            return
        unknown = StartOrder(key=finished.key, allocation_id=finished.allocation_id)
        environment = dict(finished.left) or hook_environment(unknown, self._node_id)
        problems = []
        for program in self._programs.epilogues():
            try:
                await run_hook(program, environment, self._programs.timeout_s)
            except HookFailed as error:
                problems.append(str(error))
        if problems:
            raise HookFailed(f"the epilogue failed: {'; '.join(problems)}")
