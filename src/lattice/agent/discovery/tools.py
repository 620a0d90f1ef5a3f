"""Programs that know more of the hardware than the kernel's files. None of them can hold the agent up.

A program that hangs is killed with all its children and not waited for: one that is stuck in a driver cannot be.
"""

import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence

MAX_OUTPUT = 4 << 20
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/rocm/bin"


class ToolFailed(Exception):
    """The program is not there, failed, said too much or took too long; the text says which."""


class ToolHung(ToolFailed):
    """It did not answer in time."""


def find_tool(name: str) -> str | None:
    return shutil.which(name, path=PATH)


def run_tool(argv: Sequence[str], timeout_s: float, *, extra: dict[str, str] | None = None) -> bytes:
    """What the program wrote to its output. Raises ToolFailed."""
    name = os.path.basename(argv[0])
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": PATH, "LC_ALL": "C", **(extra or {})},
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise ToolFailed(f"{name} cannot be run: {error.strerror}") from error
    ended = False
    deadline = time.monotonic() + timeout_s
    try:
        said = _read(process, deadline)
        if said is None:
            raise ToolHung(f"{name} did not answer within {timeout_s:g} s")
        if len(said) > MAX_OUTPUT:
            raise ToolFailed(f"{name} said more than {MAX_OUTPUT >> 20} MiB")
        code = process.wait(max(1.0, deadline - time.monotonic()))
        ended = True
    except subprocess.TimeoutExpired:
        raise ToolHung(f"{name} did not end") from None
    finally:
        if process.stdout is not None:
            process.stdout.close()
        if not ended:
            _kill_all(process)
    if code:
        raise ToolFailed(f"{name} ended with {code}")
    return said


def _read(process: "subprocess.Popen[bytes]", deadline: float) -> bytes | None:
    """All up to the end, or more than is taken; None when the time was over first."""
    said = bytearray()
    if process.stdout is None:
        return b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while len(said) <= MAX_OUTPUT:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                return None
            piece = os.read(process.stdout.fileno(), 1 << 16)
            if not piece:
                break
            said += piece
    return bytes(said)


def _kill_all(process: "subprocess.Popen[bytes]") -> None:
    """The whole group, also when its first process has ended already."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(0.2)
    except (ProcessLookupError, PermissionError, subprocess.TimeoutExpired):
        return
