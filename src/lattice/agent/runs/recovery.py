"""What an agent knows when it starts: run folders and a shim that may have outlived the last agent.

Decides which folders stand for a run. A folder is made for one shim, before that shim is asked to fork. If the same shim
still lives and does not know the run, nothing was forked and nothing was reported: the server will ask again. If it is
another shim, the run may have been alive, and counts as lost.
"""

import contextlib
import logging
import os
import time
from collections.abc import Collection
from pathlib import Path

import msgspec

from lattice.agent.machine.state import AgentState, End, Retention, Run, ShimReady
from lattice.agent.runs.folders import FoundRun, RunFolders
from lattice.agent.shim_client import ShimRecord
from lattice.ports.nodes.agents import EndCause, Phase, RunKey

BOOT_ID_SOURCE = Path("/proc/sys/kernel/random/boot_id")
BOOT_ID = "boot_id"
LAST_SERVER = "server.json"
ENDED = Phase.ENDED.value

_log = logging.getLogger(__name__)


def recall(folders: RunFolders, listed: Collection[RunKey], shim_id: str, retention: Retention) -> AgentState:
    """The state as the folders tell it; folders of starts that never happened are removed."""
    state = AgentState(retention=retention)
    kept: list[Run] = []
    for found in folders.found():
        folders.clear_drafts(found.key, shim_lives=found.shim_id == shim_id)
        run = _recalled(found, folders)
        if never_started(found, listed, shim_id):
            if run.order is not None and run.attempt > 1 and found.acknowledged_wall_s is None:
                _recall_resting(state, run)
            else:
                folders.remove(found.key)
            continue
        if found.acknowledged_wall_s is None:
            state.runs[run.key] = run
            state.live[run.key.number] = run.key
        else:
            kept.append(run)
        state.highest[run.key.number] = max(run.key.run, state.highest.get(run.key.number, 0))
    for run in sorted(kept, key=lambda run: run.kept_since_s):
        state.kept[run.key] = run
        state.kept_bytes += run.stored_bytes
    return state


def never_started(found: FoundRun, listed: Collection[RunKey], shim_id: str) -> bool:
    """Whether the folder stands for a start that this shim, which knows the runs `listed`, was never asked for."""
    return found.status is None and found.key not in listed and found.shim_id in (shim_id, "")


def _recall_resting(state: AgentState, run: Run) -> None:
    """The agent died right before another attempt of a service: it starts now. How the one before ended is not known any more."""
    last = End(cause=EndCause.NODE, message="the agent was restarted meanwhile")
    state.runs[run.key] = msgspec.structs.replace(run, launched=False, last=last)
    if run.order is not None:
        state.waiting[run.key.number] = run.order
    state.highest[run.key.number] = max(run.key.run, state.highest.get(run.key.number, 0))


def _recalled(found: FoundRun, folders: RunFolders) -> Run:
    """Not yet judged: whether it lives is said by `ShimReady`, which follows."""
    allocation_id = found.order.allocation_id if found.order else ""
    epoch = found.order.epoch if found.order else 0
    submission = found.order.submission if found.order else ""
    if found.acknowledged_wall_s is None:
        return Run(
            key=found.key,
            phase=Phase.STARTING,
            allocation_id=allocation_id,
            launched=True,
            started_boot_s=found.status.started_boot_s if found.status and found.status.phase == ENDED else 0.0,
            fence=found.order.fence if found.order else False,
            summary=found.order.summary if found.order else False,
            epoch=epoch,
            submission=submission,
            ports=found.order.exposes if found.order else (),
            instance=found.order.instance if found.order else 0,
            order=folders.whole_order(found.key) if found.order and found.order.restart else None,
        )
    return Run(
        key=found.key,
        phase=Phase.ENDED,
        allocation_id=allocation_id,
        launched=True,
        end=end_of(found.status) or End(cause=EndCause.NODE, message="the record of its end is lost"),
        settled=True,
        kept_since_s=found.acknowledged_wall_s,
        epoch=epoch,
        submission=submission,
        stored_bytes=found.kept_bytes,
        instance=found.order.instance if found.order else 0,
    )


def end_of(status: ShimRecord | None) -> End | None:
    """The end that the shim recorded, if it recorded one."""
    if status is None or status.phase != ENDED:
        return None
    return status.end()


def judge(
    state: AgentState, listed: Collection[ShimRecord], on_disk: dict[RunKey, End], lost_message: str
) -> ShimReady:
    """What the shim's list, and the records it left on disk, say of all runs."""
    alive = {record.key: record.started_boot_s for record in listed if record.phase != ENDED}
    ended = {record.key: record.end() for record in listed if record.phase == ENDED}
    for key, end in on_disk.items():
        if key in state.runs and key not in alive:
            ended.setdefault(key, end)
    return ShimReady(alive=alive, ended=ended, lost_message=lost_message)


def note_boot(state_dir: Path) -> tuple[str, bool]:
    """The kernel's boot id, and whether the last agent here ran under another one."""
    boot_id = BOOT_ID_SOURCE.read_text().strip()
    file = state_dir / BOOT_ID
    known = file.read_text().strip() if file.exists() else boot_id
    if known != boot_id or not file.exists():
        _keep(file, f"{boot_id}\n".encode())
    return boot_id, known != boot_id


def _keep(file: Path, data: bytes) -> None:
    """Replaces the file, or leaves the old one: a full disk must not take the node away from its work."""
    new = file.with_suffix(".new")
    try:
        new.write_bytes(data)
        new.replace(file)
    except OSError as error:
        _log.error("cannot write %s: %s", file, error)


class LastServer(msgspec.Struct, frozen=True, kw_only=True):
    """What the last server said of its patience and of the cluster's history; the file's age says when one was heard."""

    heartbeat_interval_s: float = 0.0
    down_after_s: float = 0.0
    epoch: int = 0


def note_server(state_dir: Path, server: LastServer) -> None:
    _keep(state_dir / LAST_SERVER, msgspec.json.encode(server))


def touch_server(state_dir: Path) -> None:
    """A server is there now."""
    with contextlib.suppress(OSError):
        os.utime(state_dir / LAST_SERVER)


def recall_server(state_dir: Path) -> tuple[LastServer, float]:
    """The last server's patience and how many seconds ago one was heard."""
    file = state_dir / LAST_SERVER
    try:
        server = msgspec.json.decode(file.read_bytes(), type=LastServer)
        return server, max(0.0, time.time() - file.stat().st_mtime)
    except (OSError, msgspec.DecodeError):
        return LastServer(), 0.0
