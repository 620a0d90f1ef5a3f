"""The site's own checks: programs that answer by exit status and one line, and may do neither.

Exit status 0 is a pass, 1 a warning, everything else a failure, as the plug-ins of many monitoring systems have it. A first line that
is a JSON object with `status` (ok, warn, fail) and `text` may say it too; of both the worse counts. A program that takes too
long, says too much or dies has failed. It runs in a fence (`groups`), in its own session, with a clean environment and little priority;
nothing of it is left when its outcome is known, and what cannot be killed keeps it from being started again.
"""

import asyncio
import contextlib
import json
import os
import pwd
from asyncio.subprocess import PIPE, STDOUT, Process
from concurrent.futures import Executor

import msgspec

from lattice.agent.checks.groups import MARK, MAX_PROCESSES, Fence, Fences
from lattice.agent.runs.process_end import ended
from lattice.agent.shim_client import STANDARD_PATH
from lattice.core.model.nodes.health import Outcome, Verdict

MAX_KEPT = 4096
MAX_SAID = 1 << 20
REST_WITHIN_S = 1.0
STATUS_WITHIN_S = 30.0
NICE = 10
# Waits for a line on its input before it becomes the program: until then it is put where it belongs.
GATE = (
    "IFS= read -r _ || exit 126; ulimit -c 0; most=$1; shift; "
    '[ "$most" = 0 ] || { ulimit -u "$most" || ulimit -p "$most"; } 2>/dev/null; exec "$@" </dev/null'
)
MAX_SHOWN = 100
_STATUSES = {"ok": Verdict.PASSED, "warn": Verdict.WARNED, "fail": Verdict.FAILED}
_ORDER = (Verdict.PASSED, Verdict.WARNED, Verdict.FAILED)


class SiteProgram(msgspec.Struct, frozen=True, kw_only=True):
    """What is run, and as whom; an empty user is the agent's own."""

    argv: tuple[str, ...]
    user: str = ""


class CheckStuck(Exception):
    """Processes of an earlier run cannot be killed."""


class ProgramRunner:
    """Runs programs of checks, each in a fence of its own."""

    def __init__(self, fences: Fences, pool: Executor, node_id: str) -> None:
        self._fences = fences
        self._pool = pool
        self._node_id = node_id
        self._stuck: dict[str, Fence] = {}

    async def run(self, name: str, program: SiteProgram, timeout_s: float) -> Outcome:
        """Runs it and says what it found; never raises for what a program does."""
        try:
            self._check_stuck(name)
            fence = self._fences.make(name)
        except CheckStuck as stuck:
            return Outcome(verdict=Verdict.FAILED, text=str(stuck))
        except OSError as error:
            return Outcome(verdict=Verdict.FAILED, text=f"cannot be run: {error.strerror or error}")
        try:
            return await self._attend(name, program, timeout_s, fence)
        finally:
            # Even when this task is cancelled the processes go.
            await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._pool, self._end, name, fence))

    def _check_stuck(self, name: str) -> None:
        fence = self._stuck.get(name)
        if fence is None:
            return
        if not fence.is_empty():
            raise CheckStuck("still hangs: its processes cannot be killed")
        fence.remove()
        del self._stuck[name]

    def _end(self, name: str, fence: Fence) -> None:
        if fence.kill():
            fence.remove()
        else:
            self._stuck[name] = fence

    async def _attend(self, name: str, program: SiteProgram, timeout_s: float, fence: Fence) -> Outcome:
        try:
            process = await self._start(name, program, fence)
        except (OSError, KeyError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            return Outcome(verdict=Verdict.FAILED, text=f"cannot be run: {why}")
        said = _Said(process)
        over = asyncio.create_task(ended(process.pid))
        flooded = asyncio.create_task(said.is_flood.wait())
        done, _ = await asyncio.wait({over, flooded}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        for task in (over, flooded):
            task.cancel()
        await self._rest(fence, process, said, STATUS_WITHIN_S if over in done else REST_WITHIN_S)
        if said.is_flood.is_set():
            return Outcome(verdict=Verdict.FAILED, text=f"wrote more than {MAX_SAID >> 20} MiB")
        if not done:
            last = first_line(said.kept)
            text = f"took longer than {timeout_s:g} s{f', said: {last}' if last else ''}"
            return Outcome(verdict=Verdict.FAILED, text=text)
        if process.returncode is None:
            return Outcome(verdict=Verdict.FAILED, text="its exit status did not come")
        return outcome_of(process.returncode, said.kept)

    async def _start(self, name: str, program: SiteProgram, fence: Fence) -> Process:
        environment = {
            "PATH": STANDARD_PATH,
            "LANG": "C.UTF-8",
            "LATTICE_NODE_ID": self._node_id,
            "LATTICE_CHECK": name,
            MARK: fence.mark,
        }
        account = pwd.getpwnam(program.user) if program.user else None
        as_user: dict[str, object] = {}
        if account is not None and account.pw_uid != os.geteuid():
            as_user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        process = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            GATE,
            name,
            str(_most_processes(fence, os.geteuid() if account is None else account.pw_uid)),
            *program.argv,
            stdin=PIPE,
            stdout=PIPE,
            stderr=STDOUT,
            env=environment,
            cwd="/",
            start_new_session=True,
            **as_user,  # type: ignore[arg-type]
        )
        try:
            fence.take_in(process.pid)
            os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
        except OSError:
            process.kill()
            await process.wait()
            raise
        if process.stdin is not None:
            with contextlib.suppress(ConnectionError):
                process.stdin.write(b"\n")
            process.stdin.close()
        return process

    async def _rest(self, fence: Fence, process: Process, said: "_Said", within_s: float) -> None:
        """Return when no process is left that could write more, or when none is read any more."""
        await asyncio.get_running_loop().run_in_executor(self._pool, fence.kill)
        _, pending = await asyncio.wait({said.reading, asyncio.create_task(process.wait())}, timeout=within_s)
        for task in pending:
            task.cancel()


class _Said:
    """The beginning of what a process says; the rest is read and dropped, and too much of it noticed."""

    def __init__(self, process: Process) -> None:
        self.kept = b""
        self.is_flood = asyncio.Event()
        self.reading = asyncio.create_task(self._read(process))

    async def _read(self, process: Process) -> None:
        total = 0
        while process.stdout is not None and (piece := await process.stdout.read(1 << 16)):
            self.kept += piece[: MAX_KEPT - len(self.kept)]
            total += len(piece)
            if total > MAX_SAID:
                self.is_flood.set()


def _most_processes(fence: Fence, uid: int) -> int:
    """The limit of processes for a user where no group counts them; 0 = none. It counts all that the user has already, too."""
    if fence.is_group or uid == 0:
        return 0
    return MAX_PROCESSES + sum(1 for entry in os.scandir("/proc") if entry.name.isdigit() and _owner(entry) == uid)


def _owner(entry: "os.DirEntry[str]") -> int:
    try:
        return entry.stat().st_uid
    except OSError:
        return -1


def first_line(said: bytes) -> str:
    text = said.decode("utf-8", "backslashreplace")
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def outcome_of(code: int, said: bytes) -> Outcome:
    """What exit status (below 0: a signal) and output mean together."""
    line = first_line(said)
    by_code = Verdict.PASSED if code == 0 else Verdict.WARNED if code == 1 else Verdict.FAILED
    by_word, text = _structured(line)
    verdict = by_code if by_word is None else max(by_code, by_word, key=_ORDER.index)
    how = f"killed by signal {-code}" if code < 0 else f"exit status {code}"
    if code < 0 or (by_word is not None and verdict is not by_word):
        text = f"{how}: {text}" if text else how
    elif verdict is Verdict.FAILED and not text:
        text = how
    return Outcome(verdict=verdict, text=text)


def _structured(line: str) -> tuple[Verdict | None, str]:
    """What a line of JSON says; for any other line nothing, and the line itself without the figures behind a bar."""
    if line.startswith("{"):
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict) and "status" in found:
            status, text = found["status"], found.get("text", "")
            verdict = _STATUSES.get(status) if isinstance(status, str) else None
            if verdict is None:
                # An unknown word may well mean a serious failure.
                return Verdict.FAILED, f"said {line[:MAX_SHOWN]}: its status is none of {', '.join(_STATUSES)}"
            return verdict, text if isinstance(text, str) else ""
    return None, line.partition("|")[0].strip()
