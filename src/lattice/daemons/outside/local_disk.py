"""Whether a directory suits what a server or an agent keeps: of this user, and on a disk of this machine."""

import os
import pwd
from pathlib import Path

MOUNTS = Path("/proc/self/mounts")
OVER_THE_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "lustre", "9p", "afs", "ceph", "fuse.sshfs"})


def why_unsuitable(directory: Path, mounts: Path = MOUNTS) -> str:
    """What a person has to change first; empty when the directory can be used, or made."""
    directory = directory.absolute()
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    if not existing.is_dir():
        return f"{existing} is not a directory"
    if not os.access(existing, os.R_OK | os.W_OK | os.X_OK):
        return f"this user may not write to {existing}; run as its owner, or change the owner"
    if existing == directory and (owner := directory.stat().st_uid) != os.geteuid():
        return f"{directory} belongs to {user_name(owner)}, and this is {user_name(os.geteuid())}; run as its owner, or change the owner"
    if (kind := file_system(existing, mounts)) in OVER_THE_NETWORK:
        return f"{directory} is on {kind}, where locks and durable writes cannot be relied on; it needs a local disk"
    return ""


def file_system(directory: Path, mounts: Path = MOUNTS) -> str:
    """The kind of the file system that holds the directory; empty where the kernel does not say."""
    resolved = directory.resolve()
    best, kind = Path("/"), ""
    try:
        text = mounts.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    for line in text.splitlines():
        _, place, found, *_ = line.split(" ")
        mounted = Path(place.replace("\\040", " "))
        if resolved.is_relative_to(mounted) and len(mounted.parts) >= len(best.parts):
            best, kind = mounted, found
    return kind


def user_name(uid: int) -> str:
    """For people: the name of a user, with the number."""
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"
