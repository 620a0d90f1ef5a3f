"""Removes directories that users filled, however deep: the library's way is a call for each level, which a user can exhaust."""

import errno
import os
import shutil
import subprocess

PROGRAM = "rm"
SEARCHED = "/usr/bin:/bin"


def remove_tree(path: str | os.PathLike[str], dir_fd: int | None = None) -> None:
    """Follows no links. Raises OSError."""
    try:
        shutil.rmtree(path, dir_fd=dir_fd)
    except RecursionError:
        pass
    except OSError as error:
        if error.errno != errno.EMFILE:  # each level holds a descriptor
            raise
    else:
        return
    place = os.fspath(path) if dir_fd is None else f"/proc/{os.getpid()}/fd/{dir_fd}/{os.fspath(path)}"
    done = subprocess.run([PROGRAM, "-rf", "--", place], capture_output=True, check=False, env={"PATH": SEARCHED})
    if done.returncode:
        raise OSError(errno.EIO, done.stderr.decode(errors="replace").strip()[-200:])
