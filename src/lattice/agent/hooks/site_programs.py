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
    """Paths of programs; empty = there is none."""

    prologue: str = ""
    epilogue: str = ""
    timeout_s: float = DEFAULT_TIMEOUT_S


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
        # A program is stopped and named by `run_hook`; this is for what hangs beside it.
        self.timeout_s = programs.timeout_s + STOPPING_S

    def applies(self, order: StartOrder) -> bool:
        return bool(self._programs.prologue or self._programs.epilogue)

    async def prepare(self, launch: Launch) -> None:
        environment = hook_environment(launch.order, self._node_id)
        if self._programs.prologue:
            await run_hook(self._programs.prologue, environment, self._programs.timeout_s)
        if self._programs.epilogue:
            launch.leave(environment)

    async def undo(self, finished: Finished) -> None:
        if not self._programs.epilogue:
            return
        unknown = StartOrder(key=finished.key, allocation_id=finished.allocation_id)
        environment = dict(finished.left) or hook_environment(unknown, self._node_id)
        try:
            await run_hook(self._programs.epilogue, environment, self._programs.timeout_s)
        except HookFailed as error:
            raise HookFailed(f"the epilogue failed: {error}") from error
