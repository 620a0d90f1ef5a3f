"""Services of the registry."""

from msgspec import Struct


class Endpoint(Struct, frozen=True, kw_only=True):
    """One instance of a service. A port of 0: its node has not told which one it chose."""

    id: str
    run: int = 0
    node: str = ""
    port: int = 0
    ready: bool = False


class Service(Struct, frozen=True, kw_only=True):
    """A service that runs: allocations of one user that expose a port under the same name."""

    name: str
    tenant: str = ""
    user: str = ""
    allocations: list[str] = []
    ready: int = 0
    size: int = 0


class ServiceLookup(Struct, frozen=True, kw_only=True):
    """A service with its endpoints; `version` changes with them. `shared`: you may reach it at /proxy/services/NAME/."""

    name: str
    tenant: str = ""
    user: str = ""
    allocations: list[str] = []
    ready: int = 0
    size: int = 0
    endpoints: list[Endpoint] = []
    shared: bool = False
    version: str = ""


class OpenedService(Struct, frozen=True, kw_only=True):
    """An address that is good once and for `expires_in_s`."""

    url: str
    expires_in_s: float = 0.0


class Revision(Struct, frozen=True, kw_only=True):
    """One revision of what a service runs; `state` is current, earlier or taken_back."""

    revision: int
    at: str | None = None
    by: str = ""
    note: str = ""
    state: str = ""
    reason: str = ""


class Rollout(Struct, frozen=True, kw_only=True):
    """How the newest update stands: rolling, done, taking_back or taken_back."""

    state: str = ""
    revision: int = 0
    target: int = 0
    former: int = 0
    updated: int = 0
    ready: int = 0
    size: int = 0
    max_unavailable: int = 1
    ready_within_s: int = 0
    began_at: str | None = None
    ended_at: str | None = None
    reason: str = ""

    @property
    def is_open(self) -> bool:
        return self.state in ("rolling", "taking_back")


class Revisions(Struct, frozen=True, kw_only=True):
    """What a service runs and ran, the newest first."""

    id: str
    revision: int = 1
    revisions: list[Revision] = []
    rollout: Rollout | None = None
