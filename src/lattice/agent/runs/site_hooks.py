"""The site's own programs around a run: the prologue before anything of it starts, the epilogue after all of it has ended.

They run as the agent's user, with a clean environment that names the run, and are killed with all their processes when they take
longer than they may.
"""

import asyncio
import logging
import os
import signal

import msgspec

from lattice.agent.machine.state import RunKey, RunOrder
from lattice.agent.shim_client import STANDARD_PATH

DEFAULT_TIMEOUT_S = 30.0
MAX_SAID = 400

_log = logging.getLogger(__name__)


class SiteHooks(msgspec.Struct, frozen=True, kw_only=True):
    """Paths of programs; empty = there is none."""

    prologue: str = ""
    epilogue: str = ""
    timeout_s: float = DEFAULT_TIMEOUT_S


class HookFailed(Exception):
    """The program said no, could not be started or took too long; the text says which."""


def hook_environment(order: RunOrder, node_id: str) -> dict[str, str]:
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


class Hooked:
    """Remembers the environment of runs whose epilogue is still to come; lost with the agent, and made up again then."""

    def __init__(self, hooks: SiteHooks, node_id: str) -> None:
        self._hooks = hooks
        self._node_id = node_id
        self._known: dict[RunKey, dict[str, str]] = {}

    async def before(self, order: RunOrder) -> None:
        """Runs the prologue. Raises HookFailed."""
        environment = hook_environment(order, self._node_id)
        if self._hooks.prologue:
            await run_hook(self._hooks.prologue, environment, self._hooks.timeout_s)
        if self._hooks.epilogue:
            self._known[order.key] = environment

    async def after(self, key: RunKey, allocation_id: str) -> str:
        """Runs the epilogue; what went wrong, in words. The run has ended whatever it says."""
        if not self._hooks.epilogue:
            return ""
        order = RunOrder(key=key, allocation_id=allocation_id)
        environment = self._known.pop(key, None) or hook_environment(order, self._node_id)
        try:
            await run_hook(self._hooks.epilogue, environment, self._hooks.timeout_s)
        except HookFailed as error:
            _log.error("epilogue: %s", error, extra={"allocation_id": allocation_id, "run": key.run})
            return f"the epilogue failed: {error}"
        return ""
