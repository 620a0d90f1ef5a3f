"""What a process in a container gives up for good before it becomes the user's program: capabilities, new privileges, system calls
that change the machine. Standard library only: the shim lives on this.

The filter is a list of what is forbidden: such a call fails with EPERM. A user's processes could do little with most of them anyway;
this closes what a mistake in the kernel may leave open. Programs of another architecture (32 bit) cannot run.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, PR_CAP_AMBIENT = 24, 38, 22, 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
SECCOMP_MODE_FILTER = 2
MAX_CAPABILITY = 63
CAPABILITY_VERSION_3 = 0x20080522

LOAD, EQUAL, ANY_BIT, GREATER, RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16
X32 = 0x40000000
# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
NEW_NAMESPACES = 0x7E020000

# name: numbers on x86_64 and aarch64; -1 = there is none.
FORBIDDEN = {
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "iopl": (172, -1),
    "ioperm": (173, -1),
    "uselib": (134, -1),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "lookup_dcookie": (212, 18),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "unshare": (272, 97),
    "setns": (308, 268),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
}
CLONE, CLONE3 = (56, 220), 435
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

_libc = ctypes.CDLL(None, use_errno=True)


def make_filter(machine: str) -> bytes:
    """The program for the kernel; empty for a machine whose numbers are not known here."""
    if machine not in _MACHINES:
        return b""
    place, architecture = _MACHINES[machine]
    numbers = sorted(each[place] for each in FORBIDDEN.values() if each[place] >= 0)
    refuse, missing = REFUSE | errno.EPERM, REFUSE | errno.ENOSYS
    code = [(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, architecture), (RETURN, 0, 0, missing), (LOAD, 0, 0, NUMBER)]
    if place == 0:
        code += [(GREATER, 0, 1, X32), (RETURN, 0, 0, missing)]
    for number in numbers:
        code += [(EQUAL, 0, 1, number), (RETURN, 0, 0, refuse)]
    # clone3 keeps its flags in memory, which no filter can read: the C library falls back to clone.
    code += [(EQUAL, 0, 1, CLONE3), (RETURN, 0, 0, missing)]
    code += [(EQUAL, 0, 3, CLONE[place]), (LOAD, 0, 0, FIRST_ARGUMENT), (ANY_BIT, 0, 1, NEW_NAMESPACES)]
    code += [(RETURN, 0, 0, refuse), (RETURN, 0, 0, ALLOW)]
    return b"".join(struct.pack("<HBBI", *each) for each in code)


_FILTER = make_filter(os.uname().machine)


def drop_capabilities() -> None:
    """While the process is still root: none comes back, not even by a program that belongs to root. Raises OSError."""
    for number in range(MAX_CAPABILITY + 1):
        if _libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) and ctypes.get_errno() == errno.EINVAL:
            break  # the kernel has no more
    _libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)


def seal() -> None:
    """As the user, right before exec. Raises OSError."""
    header = struct.pack("<Ii", CAPABILITY_VERSION_3, 0)
    if _libc.capset(header, bytes(24)):
        raise OSError(ctypes.get_errno(), "capset")
    if _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs")
    if not _FILTER:
        return
    buffer = ctypes.create_string_buffer(_FILTER, len(_FILTER))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(_FILTER) // 8, ctypes.addressof(buffer)))
    if _libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")
