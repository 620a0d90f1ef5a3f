"""The versions of etcd that Lattice supports, and the installed one."""

import asyncio
import re

OLDEST = (3, 4, 22)
OLDEST_3_5 = (3, 5, 6)
NEEDED = "3.4.22 or newer, or 3.5.6 or newer"
_ANSWER_WITHIN_S = 20.0
_VERSION = re.compile(rb"etcd Version: (\d+)\.(\d+)\.(\d+)")

Version = tuple[int, int, int]


class UnusableEtcd(Exception):
    """etcd is missing, does not run, or is a version that loses or damages data; the text says what to do."""


def check_version(version: Version) -> None:
    """Raises UnusableEtcd for a version that is too old or known to damage its data."""
    shown = ".".join(map(str, version))
    if version < OLDEST:
        raise UnusableEtcd(f"etcd {shown} is too old or damages its data; install {NEEDED}")
    if (3, 5, 0) <= version < OLDEST_3_5:
        raise UnusableEtcd(f"etcd {shown} is known to damage its data; install {NEEDED}")


async def installed_version(program: str) -> Version:
    """The version of the program, checked. Raises UnusableEtcd."""
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            "--version",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except FileNotFoundError:
        raise UnusableEtcd(
            f"{program} is not installed; install etcd {NEEDED} (Debian: etcd-server), or set its path in the configuration"
        ) from None
    except OSError as error:
        raise UnusableEtcd(f"{program} cannot be run: {error.strerror}") from error
    try:
        async with asyncio.timeout(_ANSWER_WITHIN_S):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise UnusableEtcd(f"{program} --version does not answer") from None
    found = _VERSION.search(output)
    if found is None:
        raise UnusableEtcd(f"{program} does not look like etcd: --version says {output[:200]!r}")
    major, minor, patch = (int(part) for part in found.groups())
    check_version((major, minor, patch))
    return major, minor, patch
