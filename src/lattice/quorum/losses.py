"""Missing data of a server. It is reported at start, and the server starts only if its operator accepts the loss.

Accepted losses are recorded beside the data and shown with the server until that record is removed.
"""

import logging
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from lattice.ports.quorum.log import LogCorrupt
from lattice.quorum.durable import write_private

FILE = "losses.json"
OPTION = "--accept-loss"
MAX_KEPT = 100

_log = logging.getLogger(__name__)


class DataLost(LogCorrupt):
    """Acknowledged data is missing, and no operator has accepted the loss."""


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    accepted_at: str
    what: str


class Losses:
    """The losses of one server; without a directory they are kept in memory only. Methods block briefly."""

    def __init__(self, folder: Path | None = None, *, accepts: bool = False) -> None:
        self._path = None if folder is None else folder / FILE
        self._accepts = accepts
        self._known = self._read()

    @property
    def told(self) -> str:
        """All accepted losses, as a sentence; empty if nothing is missing."""
        return "; ".join(f"data lost, accepted {loss.accepted_at}: {loss.what}" for loss in self._known)

    def meet(self, what: str, remedy: str) -> None:
        """Raises DataLost unless losses are accepted; then records this one."""
        if not self._accepts:
            raise DataLost(f"{what}; {remedy}, or start with {OPTION} to continue without it")
        _log.error("loss accepted with %s: %s", OPTION, what)
        moment = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        self._known = [*self._known, Loss(accepted_at=moment, what=what)][-MAX_KEPT:]
        if self._path is not None:
            draft = self._path.with_suffix(".new")
            draft.unlink(missing_ok=True)
            write_private(draft, msgspec.json.encode(self._known))
            draft.replace(self._path)

    def _read(self) -> list[Loss]:
        if self._path is None or not self._path.exists():
            return []
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=list[Loss])
        except (OSError, msgspec.DecodeError) as error:
            _log.error("cannot read %s: %s", self._path, error)
            return []
