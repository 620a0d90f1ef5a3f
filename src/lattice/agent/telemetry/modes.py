"""How closely each run is measured: from its order, or as a server said since. The node returns to prod by its own clock.

What a server said is written down beside the run, with the moment of the boot clock at which it is over: a new agent finds it.
"""

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from lattice.agent.telemetry.collector import Collector, Target
from lattice.core.model.telemetry.modes import (
    DEFAULT_INTERVAL_MS,
    MAX_DURATION_S,
    MAX_INTERVAL_MS,
    MIN_INTERVAL_MS,
    Mode,
    RunMode,
)
from lattice.ports.nodes.agents import RunKey
from lattice.wire.agents.messages import RUN_KEY, RUN_MODE
from lattice.wire.pb import agent_pb2 as pb

FILE = "telemetry.json"

_log = logging.getLogger(__name__)


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for a run, until this second of the boot clock."""

    mode: Mode
    interval_ms: int = DEFAULT_INTERVAL_MS
    until_boot_s: float = 0.0
    boot_id: str = ""  # of the boot that this second belongs to; runs do not outlive theirs


_decoder = msgspec.json.Decoder(Kept)


def boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def boot_now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class RunModes:
    """`started_s` says when a run started, by the boot clock."""

    def __init__(
        self,
        collector: Collector,
        folder: Callable[[RunKey | None], Path],
        started_s: Callable[[RunKey], float],
        now_s: Callable[[], float] = boot_now,
    ) -> None:
        self._collector = collector
        self._folder = folder
        self._started_s = started_s
        self._now_s = now_s
        self._until: dict[RunKey | None, float] = {}
        collector.began.append(self._began)
        collector.ended.append(self._ended)
        collector.ticks.append(self.expire)

    def heard(self, message: pb.ServerMessage) -> None:
        """Takes the mode out of an update of a run, which goes its own way."""
        if message.HasField("update_run") and message.update_run.HasField("telemetry"):
            self.set(RUN_KEY.read(message.update_run.key), RUN_MODE.read(message.update_run.telemetry))

    def set(self, key: RunKey, asked: RunMode) -> None:
        kept = self._bounded(asked, self._now_s())
        self._keep(key, kept)
        target = self._collector.targets.get(key)
        if target is not None:
            self._apply(target, kept)

    def set_node(self, asked: RunMode) -> None:
        """The node itself is measured so closely from now on."""
        kept = self._bounded(asked, self._now_s())
        self._keep(None, msgspec.structs.replace(kept, boot_id=boot_id()))
        self._apply(self._collector.node, kept)

    def recall_node(self) -> None:
        """As a server said to an agent before this one, since the machine was started."""
        kept = self._recall(None)
        if kept is not None and kept.boot_id == boot_id():
            self._apply(self._collector.node, kept)

    def _bounded(self, asked: RunMode, begun_s: float) -> Kept:
        if asked.mode is not Mode.DEBUG:
            return Kept(mode=asked.mode)
        return Kept(
            mode=Mode.DEBUG,
            interval_ms=min(MAX_INTERVAL_MS, max(MIN_INTERVAL_MS, asked.interval_ms)),
            until_boot_s=begun_s + min(MAX_DURATION_S, max(0.0, asked.left_s)),
        )

    def _began(self, target: Target) -> None:
        """A run is measured from now on, also one that an earlier agent started."""
        if target.key is None:
            return
        kept = self._recall(target.key)
        if kept is None and target.order is not None and target.order.telemetry is not None:
            kept = self._bounded(target.order.telemetry, self._started_s(target.key) or self._now_s())
        if kept is not None:
            self._apply(target, kept)

    def _ended(self, target: Target) -> None:
        if target.key is not None:
            self._until.pop(target.key, None)

    def _apply(self, target: Target, kept: Kept) -> None:
        is_over = kept.mode is Mode.DEBUG and self._now_s() >= kept.until_boot_s
        mode = Mode.PROD if is_over else kept.mode
        if (mode, kept.interval_ms) != (target.mode, target.interval_ms) or mode is Mode.PROD is not target.mode:
            target.set_mode(mode, kept.interval_ms)
            self._collector.wake()
        self._until[target.key] = kept.until_boot_s if mode is Mode.DEBUG else 0.0

    def expire(self) -> None:
        """Back to prod, where the time is over."""
        now_s = self._now_s()
        for key, until_s in list(self._until.items()):
            if until_s and now_s >= until_s:
                self._until[key] = 0.0
                target = self._collector.targets.get(key)
                if target is not None:
                    target.set_mode(Mode.PROD, DEFAULT_INTERVAL_MS)
                    _log.info("%s is measured in mode prod again", "the node" if key is None else f"run {key}")

    def _keep(self, key: RunKey | None, kept: Kept) -> None:
        path = self._folder(key) / FILE
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with open(descriptor, "wb") as file:
                file.write(msgspec.json.encode(kept))
        except OSError as error:
            _log.warning("cannot note the mode of %s: %s", "the node" if key is None else f"run {key}", error)

    def _recall(self, key: RunKey | None) -> Kept | None:
        try:
            return _decoder.decode((self._folder(key) / FILE).read_bytes())
        except (OSError, msgspec.DecodeError):
            return None
