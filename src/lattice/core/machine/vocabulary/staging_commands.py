"""Commands about data on the hot tier. See docs/architecture/data.md."""

from lattice.core.machine.vocabulary.shape import Command
from lattice.core.model.data.copies import CopyPhase


class WantCopy(Command, tag="want_copy", frozen=True, kw_only=True):
    """Somebody wants a source on the hot tier before there is work for it."""

    source: str
    tenant: str
    user: str
    account: str


class ClaimCopy(Command, tag="claim_copy", frozen=True, kw_only=True):
    """A mover takes a copy on."""

    key: str
    mover: str


class ReportCopy(Command, tag="report_copy", frozen=True, kw_only=True):
    """What became of a copy, from the mover that claimed it; or from the leader, of one that it no longer hears."""

    key: str
    mover: str
    generation: int
    phase: CopyPhase
    size: int = 0
    files: int = 0
    version: str = ""
    reason: str = ""
    readers: tuple[str, ...] = ()
    denied: tuple[tuple[str, str], ...] = ()


class EvictCopy(Command, tag="evict_copy", frozen=True, kw_only=True):
    """What no live work needs leaves the hot tier."""

    key: str


class SettleData(Command, tag="settle_data", frozen=True, kw_only=True):
    """Looks again at work in Staging: what has its data goes to the queue."""

    numbers: tuple[int, ...]
