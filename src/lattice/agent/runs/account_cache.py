"""Which launches may be made ready on the agent's own loop.

To look up an account and to enter a directory may wait for a name service or a file server that is gone, so that is done in a
thread. A thread costs more than all the rest of a launch, though: for a while after the first one of a user into a directory
the account is remembered, and when the directory lies in a file system of this machine, nothing is left that could wait.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from lattice.agent.runs.launch import Account, AccountPolicy, choose_directory, is_directory, resolve_account
from lattice.ports.nodes.agents import StartOrder

REMEMBERED_S = 10.0
MAX_REMEMBERED = 1024
MAX_SCRIPT_BYTES = 64 << 10
MOUNTS = Path("/proc/self/mountinfo")
# Everything else, automounters among it, may have a server behind it.
LOCAL = frozenset({"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"})


class _Known(msgspec.Struct, frozen=True):
    account: Account
    directory: str
    until_s: float


class AccountCache:
    """Users and the directories in which they started something lately."""

    def __init__(self, policy: AccountPolicy, now_s: Callable[[], float] = time.monotonic) -> None:
        self._policy = policy
        self._now_s = now_s
        self._known: dict[tuple[str, str], _Known] = {}

    def recall(self, order: StartOrder) -> Account | None:
        """The account, when nothing in this launch can wait; None when it has to be made ready elsewhere."""
        known = self._known.get((order.user, order.cwd))
        if known is None or len(order.script) > MAX_SCRIPT_BYTES:
            return None
        if known.until_s < self._now_s() or not is_directory(known.directory):
            del self._known[order.user, order.cwd]
            return None
        return known.account

    def meet(self, order: StartOrder) -> Account:
        """Look everything up, in a thread; raises LaunchRefused."""
        account = resolve_account(order.user, self._policy)
        directory, note = choose_directory(order.cwd, account.home, account)
        if not note and is_local(directory):
            if len(self._known) >= MAX_REMEMBERED:
                self._known.clear()
            known = _Known(account, directory, self._now_s() + REMEMBERED_S)
            self._known[order.user, order.cwd] = known
        return account


def is_local(directory: str) -> bool:
    """Whether the directory lies in a file system that needs no other machine."""
    try:
        device = os.stat(directory).st_dev
        mounts = MOUNTS.read_text(errors="replace")
    except OSError:
        return False
    number = f"{os.major(device)}:{os.minor(device)}"
    kinds = {kind.split()[0] for kind in _kinds(mounts, number)}
    return bool(kinds) and kinds <= LOCAL


def _kinds(mounts: str, number: str) -> list[str]:
    lines = (line.partition(" - ") for line in mounts.splitlines())
    return [source for mount, _, source in lines if mount.split()[2:3] == [number] and source]
