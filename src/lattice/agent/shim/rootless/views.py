"""What a run sees of the file system, made in the way that the rights of this shim allow."""

from __future__ import annotations

import errno
import os

from lattice.agent.shim.cgroups import CgroupRoot
from lattice.agent.shim.namespace import KINDS, SQUASHFUSE, Mount, View, make_namespace
from lattice.agent.shim.rootless.keeper import keep_view
from lattice.agent.shim.rootless.userns import why_not
from lattice.agent.shim.tree import Forest

Tracker = CgroupRoot | Forest


def make_view(mounts: list[Mount], mark: str, tracker: Tracker) -> View:
    """The host's where there are no mounts. `mark` is the folder of the run. Raises OSError, which says what failed."""
    if not mounts:
        return View()
    if os.geteuid() == 0 and isinstance(tracker, CgroupRoot):
        return View(make_namespace(mounts))
    if any(mount.kind != SQUASHFUSE for mount in mounts):
        raise OSError(errno.EPERM, "this node cannot mount for a run: its agent is not root")
    view = keep_view(mounts, mark)
    if isinstance(tracker, Forest):
        tracker.spare(view.pid)
    return view


def mount_kinds(tracker: Tracker) -> tuple[list[str], str]:
    """What this shim mounts for a run, and why it mounts no images if it does not."""
    if os.geteuid() == 0:
        return (list(KINDS), "") if isinstance(tracker, CgroupRoot) else ([], "")
    problem = why_not()
    return ([] if problem else [SQUASHFUSE]), problem
