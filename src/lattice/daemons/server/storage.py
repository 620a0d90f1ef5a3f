"""What a server keeps: a log, the replica over it with archive and snapshots, backups, and what it knows to be lost."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from lattice.config.schema import ServerConfig
from lattice.daemons.server.recovery import object_snapshots
from lattice.observe.metrics import Metrics
from lattice.ports.clock import Clock
from lattice.ports.quorum.log import Log
from lattice.quorum.archive.archive import SqliteArchive
from lattice.quorum.backup.objects import SnapshotUploads
from lattice.quorum.backup.service import BackupService
from lattice.quorum.disk_space import disk_problem
from lattice.quorum.log_clock import boot_s
from lattice.quorum.logs.memory import MemoryLog
from lattice.quorum.logs.sqlite import SqliteLog
from lattice.quorum.losses import Losses
from lattice.quorum.replica import LogReplica, ReplicaCounters
from lattice.quorum.snapshots.folders import SnapshotFolder


class ChosenLog(NamedTuple):
    """A log; `shared_head` reads its newest index where other servers append to it, too."""

    log: Log
    is_kept: bool = True  # archive and snapshots lie in files beside it
    shared_head: Callable[[], Awaitable[int]] | None = None


def embedded_log(config: ServerConfig) -> ChosenLog:
    """The log of a server that is alone."""
    if config.log.kind == "sqlite":
        return ChosenLog(SqliteLog(data_dir(config) / "log.db"))
    return ChosenLog(MemoryLog(), is_kept=False)


def data_dir(config: ServerConfig) -> Path:
    """The folder of everything that a server keeps; it exists from now on."""
    folder = Path(config.data_dir)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


class Storage:
    """Holds nothing open before `replica.start`."""

    def __init__(
        self, config: ServerConfig, chosen: ChosenLog, clock: Clock, metrics: Metrics, *, accepts_loss: bool
    ) -> None:
        self._config = config
        self.log = chosen.log
        # Everything of this server lies in it; no other process writes there while this one runs.
        self.folder = data_dir(config)
        # What is missing here though it was acknowledged. The replica adds to it while it loads.
        self.losses = Losses(self.folder, accepts=accepts_loss)
        # The only owner of the state. Others read it, and propose commands to change it.
        self.replica = LogReplica(
            log=chosen.log,
            archive=SqliteArchive(self.folder / "archive.db" if chosen.is_kept else None),
            snapshots=SnapshotFolder(self.folder / "snapshots", config.snapshots.keep) if chosen.is_kept else None,
            clock=clock,
            snapshot_every=config.snapshots.every_commands,
            counters=ReplicaCounters(
                on_commit=lambda seconds, commands: metrics.commit_done(seconds),
                on_snapshot=metrics.quorum.snapshot_taken,
            ),
            shared_head=chosen.shared_head,
            clock_step_limit_s=config.quorum.clock_step_limit,
            steady_s=boot_s,
            losses=self.losses,
        )
        # None where there is nothing to make one of: the log is in memory.
        self.backups = self._backups() if chosen.is_kept else None

    def _backups(self) -> BackupService:
        config = self._config
        folder = Path(config.backup.directory) if config.backup.directory else self.folder / "backups"
        return BackupService(self.replica, self.folder, folder, config.name, config.quorum.kind)

    def uploads(self) -> SnapshotUploads | None:
        """The loop that stores snapshots in the object store, where that is configured."""
        settings = self._config.snapshots
        if self.backups is None or not settings.to_object_store:
            return None
        return SnapshotUploads(object_snapshots(self._config, self.folder), self.backups.source, every_s=settings.every)

    def problem(self) -> str:
        """Why this server is not healthy, as far as its own files tell; empty when they are well."""
        return disk_problem(self.folder) or self.replica.archive_damage

    def warning(self) -> str:
        """What an operator should know of this server though it serves."""
        jump_s = self.replica.clock.jump_s
        jump = f"its clock jumped by {jump_s:.1f} s, which the log ignores; restart the server when the clock is right"
        return "; ".join(filter(None, (self.losses.told, jump if jump_s else "")))
