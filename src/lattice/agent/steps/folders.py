"""Folders of steps: the record that a launch was accepted, the journal of what the tasks wrote, and how they ended."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from lattice.agent.machine.step_status import StepStatus
from lattice.agent.runs.devices import NOTHING, Devices
from lattice.agent.runs.folders import ACKNOWLEDGED, SPEC, STATUS_DRAFT, TOKEN, make_apart, write_new
from lattice.ports.nodes.agents import RunKey, StartOrder, StepKey

STATUS = "status.json"


class StepSpec(msgspec.Struct, frozen=True, kw_only=True):
    """spec.json: what identifies the step, and what is needed when everybody else forgot it."""

    launch_id: str
    plan: bytes
    ranks: tuple[int, ...]
    fence: bool = False
    devices: Devices = NOTHING
    cpus: tuple[int, ...] = ()  # of its tasks, which no other step gets
    output_prefix: str = ""  # of the run, below which its output is stored
    upload_grant: str = ""
    measured: StartOrder | None = None  # whose the run is, for its figures where the allocation runs no script


class FoundStep(msgspec.Struct, frozen=True, kw_only=True):
    key: StepKey
    spec: StepSpec
    status: StepStatus | None
    acknowledged_wall_s: float | None
    size: int


_spec_decoder = msgspec.json.Decoder(StepSpec)
_status_decoder = msgspec.json.Decoder(StepStatus)


class StepFolders:
    """`reachable` lets other accounts pass through to their own files."""

    def __init__(self, state_dir: Path, *, reachable: bool) -> None:
        self.state_dir = state_dir
        self._root = self.root = state_dir / "steps"
        self._mode = 0o711 if reachable else 0o700
        make_apart(self._root)
        self._root.chmod(self._mode)
        self.on_created: Callable[[], None] = lambda: None  # called in the thread that made the folder

    def path(self, key: StepKey) -> Path:
        return self._root / str(key)

    def create(self, key: StepKey, spec: StepSpec, token: str, owner: tuple[int, int]) -> Path:
        """The folder with its record; OSError leaves nothing behind."""
        folder = self.path(key)
        folder.mkdir()
        try:
            folder.chmod(self._mode)
            write_new(folder / SPEC, msgspec.json.encode(spec), 0o600, None)
            if token:
                write_new(folder / TOKEN, token.encode(), 0o600, owner)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self.on_created()
        return folder

    def clear_drafts(self, key: StepKey, *, of_shim: bool) -> None:
        """Remove what was half written when its writer was killed: the shim, or an agent before this one."""
        for draft in self.path(key).glob("*.new"):
            if (draft.name == STATUS_DRAFT) is of_shim:
                with contextlib.suppress(OSError):
                    draft.unlink()

    def acknowledge(self, key: StepKey) -> None:
        folder = self.path(key)
        with contextlib.suppress(OSError):
            (folder / ACKNOWLEDGED).touch(mode=0o600)
            (folder / TOKEN).unlink(missing_ok=True)

    def remove(self, key: StepKey) -> None:
        shutil.rmtree(self.path(key), ignore_errors=True)

    def size(self, key: StepKey) -> int:
        """Bytes on disk."""
        try:
            with os.scandir(self.path(key)) as entries:
                return sum(entry.stat(follow_symlinks=False).st_blocks * 512 for entry in entries)
        except FileNotFoundError:
            return 0

    def found(self) -> Iterator[FoundStep]:
        """Every step on disk; a folder without a readable record was never launched and is removed."""
        for name in sorted(os.listdir(self._root)):
            parts = name.split(".")
            if len(parts) != 3 or not all(part.isdigit() for part in parts):
                continue
            key = StepKey(*map(int, parts))
            try:
                spec = _spec_decoder.decode((self.path(key) / SPEC).read_bytes())
            except (OSError, msgspec.DecodeError):
                self.remove(key)
                continue
            yield FoundStep(
                key=key,
                spec=spec,
                status=self.status(key),
                acknowledged_wall_s=self._acknowledged(key),
                size=self.size(key),
            )

    def spec(self, key: StepKey) -> StepSpec | None:
        try:
            return _spec_decoder.decode((self.path(key) / SPEC).read_bytes())
        except (OSError, msgspec.DecodeError):
            return None

    def order(self, key: RunKey) -> StartOrder | None:
        """Whose the run is, as the orders of its steps say; None where it has none here."""
        for name in os.listdir(self._root):
            if name.startswith(f"{key}."):
                spec = self.spec(StepKey(key.number, key.run, int(name.rpartition(".")[2])))
                if spec is not None and spec.measured is not None:
                    return spec.measured
        return None

    def status(self, key: StepKey) -> StepStatus | None:
        try:
            return _status_decoder.decode((self.path(key) / STATUS).read_bytes())
        except (OSError, msgspec.DecodeError):
            return None

    def _acknowledged(self, key: StepKey) -> float | None:
        try:
            return (self.path(key) / ACKNOWLEDGED).stat().st_mtime
        except OSError:
            return None
