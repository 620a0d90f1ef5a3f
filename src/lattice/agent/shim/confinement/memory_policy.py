"""Where a process gets its memory from, by the system call that `numactl` uses; standard library only.

The policy belongs to the thread that sets it, and to what it forks and executes.
"""

from __future__ import annotations

import ctypes
import os

_CALLS = {"x86_64": (238, 239), "aarch64": (237, 236)}  # set_mempolicy, get_mempolicy
SET, GET = _CALLS.get(os.uname().machine, (-1, -1))
MODES = {"preferred": 1, "bind": 2, "interleave": 3, "local": 4}
MAX_NODE = 1023
MASK_BITS = MAX_NODE + 1

_libc = ctypes.CDLL(None, use_errno=True)

Policy = tuple[int, bytes]  # mode and node mask


def can_set() -> bool:
    """Whether this kernel has memory policies."""
    mode = ctypes.c_int()
    return SET >= 0 and _libc.syscall(GET, ctypes.byref(mode), None, 0, None, 0) == 0


def parse_policy(asked: object) -> Policy | None:
    """What a request says; ValueError for what cannot be meant."""
    if asked is None:
        return None
    if not isinstance(asked, dict) or asked.get("kind") not in MODES:
        raise ValueError(f"memory_policy is none: {asked!r}")
    nodes = asked.get("nodes") or []
    if not isinstance(nodes, list) or not all(type(each) is int and 0 <= each <= MAX_NODE for each in nodes):
        raise ValueError(f"memory_policy.nodes is not a list of numbers to {MAX_NODE}")
    kind = asked["kind"]
    if (kind == "local") == bool(nodes):
        raise ValueError(f"memory_policy: {kind} with NUMA nodes {nodes}")
    mask = sum(1 << each for each in set(nodes))
    return MODES[kind], mask.to_bytes(MASK_BITS // 8, "little")


def set_policy(policy: Policy) -> None:
    """For this process from now on. Raises OSError."""
    mode, mask = policy
    given = None if mode == MODES["local"] else mask
    # The kernel counts one bit more than it reads.
    if _libc.syscall(SET, mode, given, MASK_BITS + 1 if given else 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
