"""A real Slurm to compare with, in namespaces of its own; it needs root and a Debian that hands out its packages."""

import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.conftest import missing, require_program, require_root

SCRIPT = Path(__file__).with_name("reference.sh")
Shell = Callable[[list[str]], "subprocess.CompletedProcess[str]"]


@contextmanager
def real_slurm() -> Iterator[Shell]:
    """Runs words where Slurm's own commands are. Skips, saying why, where it cannot be installed."""
    require_root()
    for program in ("unshare", "nsenter", "apt-get"):
        require_program(program)
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder, tempfile.TemporaryFile("w+") as complaints:
        words = ["unshare", "-m", "-p", "--fork", "--kill-child", "--propagation", "private", str(SCRIPT), folder]
        process = subprocess.Popen([*words, *_ports(5)], stdout=subprocess.PIPE, stderr=complaints, text=True)
        assert process.stdout is not None
        try:
            if process.stdout.readline() != "ready\n":
                complaints.seek(0)
                missing(f"a real Slurm to compare with ({complaints.read().strip()[-800:]})")
            yield _shell(process.pid, folder)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def _ports(count: int) -> list[str]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [str(each.getsockname()[1]) for each in sockets]


def _shell(unshared: int, folder: str) -> Shell:
    children = Path(f"/proc/{unshared}/task/{unshared}/children").read_text().split()
    enter = [
        "nsenter",
        "-t",
        children[0],
        "-m",
        "-p",
        "chroot",
        f"{folder}/root",
        *["env", "-i", "HOME=/tmp", "LANG=C"],
    ]
    enter.append("PATH=/usr/bin:/bin:/usr/sbin:/sbin")

    def shell(words: list[str]) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*enter, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False
        )

    return shell
