"""Where tests of containers work, and an ordinary user who has a home there."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import require_program


@contextmanager
def open_folder() -> Iterator[Path]:
    """Not in /tmp, which runs do not always see."""
    for program in ("mksquashfs", "crun", "busybox", "useradd"):
        require_program(program)
    folder = Path(tempfile.mkdtemp(prefix="lattice-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def home_of(user: str, folder: Path) -> Iterator[Path]:
    """Of a user who is not root and is there only for so long."""
    home = folder / "home"
    subprocess.run(["useradd", "--create-home", "--home-dir", home, "--shell", "/bin/sh", user], check=True)
    try:
        yield home
    finally:
        subprocess.run(["userdel", user], check=True)
