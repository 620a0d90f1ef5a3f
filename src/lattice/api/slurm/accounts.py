"""Numbers of POSIX users and groups, as this server knows them; 65534 for unknown ones."""

import grp
import pwd
from functools import lru_cache

from lattice.slurm.text.numbers import whole

NOBODY = 65534
MAX_ID = (1 << 32) - 2


@lru_cache(maxsize=4096)
def user_ids(name: str) -> tuple[int, int]:
    """Number of the user and of its group."""
    try:
        found = pwd.getpwnam(name)
    except (KeyError, ValueError):
        return NOBODY, NOBODY
    return found.pw_uid, found.pw_gid


@lru_cache(maxsize=4096)
def user_name(uid: int) -> str:
    """The user with this number; empty when there is none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return ""


def named(text: str) -> str:
    """The user that a name or a number stands for; the text itself when there is none."""
    number = whole(text)
    return text if number is None or number > MAX_ID else user_name(number) or text


@lru_cache(maxsize=4096)
def group_name(gid: int) -> str:
    """The group with this number, or the number itself."""
    try:
        return grp.getgrgid(gid).gr_name
    except (KeyError, OverflowError):
        return str(gid)
