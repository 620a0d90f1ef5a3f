"""The PMIx server of this node: built once per installation where a compiler and the headers of libpmix are, and tried once.

A node without them has no PMIx, and says so by a feature that it lacks. docs/architecture/mpi.md.
"""

import glob
import hashlib
import logging
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

FEATURE = "pmix"
PROGRAM = "lattice-pmix-host"
RECORD = "lattice-pmix-host.json"
SOURCE = Path(__file__).with_name("host.c")
LIBRARIES = (
    "/usr/lib/*/libpmix.so.2",
    "/usr/lib64/libpmix.so.2",
    "/usr/lib/libpmix.so.2",
    "/usr/local/lib*/libpmix.so.2",
)
# For the node of root whose installation and state lie in a home directory that no other user may enter.
# Not in /run/lattice: that belongs to the account of the servers, which must not choose what agents of root start.
SYSTEM_FOLDER = Path("/run/lattice-agent/libexec")
BUILD_S = 60.0
TRY_S = 20.0
# Open MPI 4 takes a PMIx server for real only if a launcher that it knows left its mark.
MARKS = {"JSM_JSRUN_PORT": "1"}
# Ranks in containers do not see the server's directories, and need none of them.
DROPPED = frozenset({"PMIX_SERVER_TMPDIR", "PMIX_SYSTEM_TMPDIR"})
_PORT = re.compile(r":\d+$")
_HEAD = struct.Struct("!cI")

_log = logging.getLogger(__name__)


class PmixHost(msgspec.Struct, frozen=True, kw_only=True):
    """`variables` are those of a rank, with `{space}`, `{node}`, `{rank}` and `{port}` in their values."""

    program: str
    variables: dict[str, str]


class _Record(msgspec.Struct, frozen=True):
    """What the program was made of, and what it said of itself then."""

    made_of: str
    variables: dict[str, str]


class NoPmix(Exception):
    """The text says why."""


def find_host(spare: Path) -> PmixHost | None:
    """The server, built if necessary: beside the interpreter's programs, or in the first other place that users can reach."""
    for folder in (Path(sys.prefix) / "libexec" / "lattice", spare, SYSTEM_FOLDER):
        if not _is_reachable(folder):
            continue
        try:
            return _host_in(folder)
        except NoPmix as why:
            _log.info("no PMIx on this node: %s", why)
            return None
        except OSError:
            continue  # the next place may take it
    _log.info("no PMIx on this node: no folder takes the server and lets users run it")
    return None


def _host_in(folder: Path) -> PmixHost:
    program, record = folder / PROGRAM, folder / RECORD
    made_of = _made_of()
    try:
        known = msgspec.json.decode(record.read_bytes(), type=_Record)
        if known.made_of == made_of and program.exists():
            return PmixHost(program=str(program), variables=known.variables)
    except (OSError, msgspec.MsgspecError):
        pass
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NoPmix("there is no C compiler")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".build-") as place:
        made = Path(place, PROGRAM)
        _run([compiler, "-O2", "-std=gnu11", "-o", str(made), str(SOURCE), *_flags(), "-lpthread", "-ldl"], BUILD_S)
        variables = templates(_tried(made, place))
        made.chmod(0o755)
        made.replace(program)
        draft = Path(place, RECORD)
        draft.write_bytes(msgspec.json.encode(_Record(made_of, variables)))
        draft.chmod(0o644)
        draft.replace(record)
    return PmixHost(program=str(program), variables=variables)


def _made_of() -> str:
    """Changes with the source and with the library. Raises NoPmix."""
    libraries = [path for pattern in LIBRARIES for path in sorted(glob.glob(pattern))]
    if not libraries:
        raise NoPmix("libpmix is not installed")
    about = os.stat(libraries[0])
    return f"{hashlib.sha256(SOURCE.read_bytes()).hexdigest()} {libraries[0]} {about.st_size} {about.st_mtime_ns}"


def _flags() -> list[str]:
    if shutil.which("pkg-config"):
        asked = ["pkg-config", "--cflags", "--libs", "pmix"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=BUILD_S)
        if done.returncode == 0:
            return done.stdout.split()
    for header in sorted(glob.glob("/usr/lib/*/pmix2/include/pmix.h")) + glob.glob("/usr/include/pmix.h"):
        return [f"-I{Path(header).parent}", "-lpmix"]
    raise NoPmix("the headers of libpmix are not installed")


def _run(words: list[str], limit_s: float) -> None:
    try:
        subprocess.run(words, check=True, capture_output=True, timeout=limit_s)
    except subprocess.CalledProcessError as error:
        raise NoPmix(f"the server does not build: {error.stderr.decode(errors='replace')[:500]}") from None
    except subprocess.TimeoutExpired:
        raise NoPmix("the compiler does not end") from None


def _tried(program: Path, place: str) -> list[str]:
    """The environment that it gives to a rank. Raises NoPmix."""
    step = "\n".join(("lattice", "1", "0", "node", "0", place)).encode()
    try:
        done = subprocess.run(
            [str(program)], input=_HEAD.pack(b"J", len(step)) + step, capture_output=True, check=False, timeout=TRY_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoPmix(f"the server does not start: {error}") from None
    found, at, kind = [], 0, b""
    while at + _HEAD.size <= len(done.stdout):
        kind, length = _HEAD.unpack_from(done.stdout, at)
        at += _HEAD.size + length
        text = done.stdout[at - length : at].decode(errors="replace")
        if kind == b"X":
            raise NoPmix(text)
        if kind == b"V":
            found.append(text)
    if kind != b"R":
        raise NoPmix(f"the server does not start: {done.stderr.decode(errors='replace')[:500]}")
    return found


def templates(environment: list[str]) -> dict[str, str]:
    """What a rank gets, from what the library gives to one: values of the step in braces."""
    own = {"PMIX_NAMESPACE": "{space}", "PMIX_RANK": "{rank}", "PMIX_HOSTNAME": "{node}"}
    found = dict(MARKS)
    for pair in environment:
        name, _, value = pair.partition("=")
        if name.startswith("PMIX_SERVER_URI"):
            value = _PORT.sub(":{port}", value)
        if name not in DROPPED:
            found[name] = own.get(name, value)
    return found


def _is_reachable(folder: Path) -> bool:
    """Whether every user may execute what lies there; a node that works for one account needs only that."""
    if os.geteuid() != 0:
        return True
    existing = [each for each in (folder, *folder.parents) if each.exists()]
    return all(each.stat().st_mode & 0o001 for each in existing)
