"""Files of an image for somebody who may change them: shown as his own instead of root's, by a mount that maps the owner.

The bytes in the cache stay as they are. What is no longer possible on the kernel or the file system is left out: the files are root's then.
"""

import sys
from collections.abc import Mapping

# Arguments: the mount, uid, gid. open_tree, mount_setattr and move_mount have the same numbers on all machines.
_PROGRAM = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *words):
    found = libc.syscall(number, *words)
    if found < 0:
        sys.exit(1)
    return found
place, uid, gid = sys.argv[1].encode(), sys.argv[2], sys.argv[3]
ready, is_ready = os.pipe()
over, is_over = os.pipe()
pid = os.fork()
if not pid:
    libc.unshare(0x10000000)  # a user namespace
    os.write(is_ready, os.readlink("/proc/self").encode())  # its number there, which may be that of another process namespace
    os.close(is_over)
    os.read(over, 1)
    os._exit(0)
pid = os.read(ready, 20).decode()
for name, number in (("uid", uid), ("gid", gid)):
    with open(f"/proc/{pid}/{name}_map", "w") as file:
        file.write(f"0 {number} 1")
space = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY)
os.close(is_over)
tree = call(428, -100, place, 1 | os.O_CLOEXEC)
call(442, tree, b"", 0x1000, struct.pack("QQQQ", 0x100000, 0, 0, space), ctypes.c_size_t(32))
call(429, tree, b"", -100, place, 4)
"""

# A function for the scripts: what lies in `lower` and `upper` of its argument belongs to $OWNER, if that is possible.
OWN = r"""
own() {
    if [ -n "$OWNER" ] && "$PYTHON" -IS -c "$OWNING" "$1/lower" $OWNER 2>/dev/null; then
        chown "${OWNER% *}:${OWNER#* }" "$1/upper"
    fi
}
"""


def owning(owner: tuple[int, int] | None) -> Mapping[str, str]:
    """Variables of a script that calls `own`."""
    if owner is None or not owner[0]:
        return {"OWNER": ""}
    return {"OWNER": f"{owner[0]} {owner[1]}", "PYTHON": sys.executable, "OWNING": _PROGRAM}
