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
