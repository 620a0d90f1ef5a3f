"""Stops a cluster: agents first, so that nothing starts shims or work again, then the
shims with all their work, then the server. It also finds and ends what an unclean death left behind."""

import logging
import os
import time
from contextlib import suppress

from lattice.agent.shim.cgroups import open_root
from lattice.agent.shim.shim import default_cgroup_root
from lattice.agent.shim.tree import Forest
from lattice.daemons.local.layout import Layout, take_lock
from lattice.daemons.local.processes import Member, Process, find_members, stop

_log = logging.getLogger(__name__)

BEFORE_SERVERS = {"mover": 5.0, "agent": 5.0, "shim": 15.0}  # how long each may take
SERVER_PATIENCE_S = 10.0
SUPERVISOR_PATIENCE_S = 45.0
SWEEP_S = 5.0
ROUNDS = 5


class StopFailed(Exception):
    """Part of the cluster is still running; the text is for the user."""


def stop_cluster(layout: Layout) -> str:
    """Ends the cluster of this directory, with or without its supervisor; returns the message for the user."""
    if not layout.lock.exists() and not layout.cluster_file.exists():
        return "not running"
    _check_owner(layout)
    found = find_members(layout)
    _, left = stop_role(layout, found, "supervisor", SUPERVISOR_PATIENCE_S)
    lock = _wait_for_lock(layout)
    try:
        left += stop_members(layout)
    finally:
        os.close(lock)
    if left:
        raise StopFailed(f"could not end the processes {', '.join(str(process.pid) for process in left)}")
    return f"stopped the cluster in {layout.root}" if found else "not running"


def stop_members(layout: Layout) -> list[Process]:
    """Ends everything except the supervisor and removes its records; returns the processes that survived."""
    found, left = find_members(layout), []
    for role, patience_s in BEFORE_SERVERS.items():
        found, stubborn = stop_role(layout, found, role, patience_s)
        left += stubborn
    for node in layout.nodes():
        sweep_node(layout, node)
    for role in ("server", "etcd"):
        found, stubborn = stop_role(layout, found, role, SERVER_PATIENCE_S)
        left += stubborn
    for server in layout.server_names():
        layout.endpoints_of(server).unlink(missing_ok=True)
    layout.cluster_file.unlink(missing_ok=True)
    return left


def stop_role(layout: Layout, found: list[Member], role: str, patience_s: float) -> tuple[list[Member], list[Process]]:
    """Ends every process of the role; the members that are left, and those of them that survived.

    All are looked for again after some have ended, because these may have been starting others at that moment.
    """
    stubborn: list[Process] = []
    for _ in range(ROUNDS):
        processes = [member.process for member in found if member.role == role]
        if all(process in stubborn for process in processes):
            break
        stubborn = stop(processes, patience_s)
        found = find_members(layout)
    return found, stubborn


def sweep_node(layout: Layout, node: str) -> None:
    """Ends the work of a killed shim, and removes its cgroups and its socket."""
    state = layout.state_of(node)
    groups = open_root(default_cgroup_root(str(state)))
    if groups is not None:
        groups.sweep(SWEEP_S)
        groups.remove()
    Forest(str(state)).sweep(SWEEP_S)
    for name in ("shim.sock", "shim.pid"):
        with suppress(FileNotFoundError):
            os.unlink(state / name)


def _check_owner(layout: Layout) -> None:
    owner = layout.lock.stat().st_uid if layout.lock.exists() else layout.root.stat().st_uid
    if os.geteuid() not in {0, owner}:
        raise StopFailed(f"the cluster in {layout.root} belongs to another user (uid {owner})")


def _wait_for_lock(layout: Layout) -> int:
    until = time.monotonic() + SUPERVISOR_PATIENCE_S
    while (lock := take_lock(layout.lock)) is None:
        if time.monotonic() > until:
            raise StopFailed(f"the supervisor of {layout.root} still holds {layout.lock}")
        time.sleep(0.05)
    return lock
