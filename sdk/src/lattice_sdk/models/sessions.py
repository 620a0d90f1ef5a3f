"""Sessions: allocations to be worked in by hand, with their terminals."""

from msgspec import Struct

from lattice_sdk.models.records import TERMINAL_STATES


class SessionTerminal(Struct, frozen=True, kw_only=True):
    """One terminal of a session. The session ends with the one that `ends_session`."""

    id: str
    step: int
    node: str = ""
    state: str = ""
    started_at: str | None = None
    ends_session: bool = False


class Session(Struct, frozen=True, kw_only=True):
    """A session is an allocation under the same ID; `reason` says why it waits, `ending` how it ended."""

    id: str
    allocation: str
    name: str = ""
    state: str = ""
    reason: str = ""
    user: str = ""
    tenant: str = ""
    project: str = ""
    vcluster: str = ""
    nodes: list[str] = []
    node_count: int = 0
    walltime_s: int = 0
    idle_end_s: int = 0
    elapsed_s: int = 0
    created_at: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    exit_code: int | None = None
    ending: str = ""
    terminals: list[SessionTerminal] = []
    warnings: list[str] = []

    @property
    def is_ended(self) -> bool:
        return self.state in TERMINAL_STATES
