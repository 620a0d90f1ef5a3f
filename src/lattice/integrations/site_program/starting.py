"""How programs of the site are started: in a session of their own, in a clean environment, from the root folder."""

import subprocess
from collections.abc import Sequence
from typing import IO

STANDARD_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
MAX_SAID = 400


class CannotStart(Exception):
    """There is no such program, or it may not be run; the text says which and why."""


def start_program(
    command: Sequence[str], *, stdin: int | IO[bytes], stdout: int, stderr: int | IO[bytes]
) -> "subprocess.Popen[bytes]":
    """Raises CannotStart. The whole group, whose number is the program's, is the caller's to end."""
    try:
        return subprocess.Popen(
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env={"PATH": STANDARD_PATH, "LANG": "C.UTF-8"},
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise CannotStart(f"{command[0]} cannot be started: {error.strerror or error}") from None
