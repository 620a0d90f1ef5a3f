"""Changes of state, as `watch` tells them."""

from msgspec import Struct

from lattice_sdk.models.records import TERMINAL_STATES


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change of state. `what` is allocation (also a task or a group), dag, node, tenant, project, vcluster, reservation,
    setting or service."""

    index: int
    kind: str = ""
    at: str | None = None
    id: str = ""
    number: int | None = None
    state: str = ""
    name: str | None = None
    user: str | None = None
    tenant: str | None = None
    reason: str | None = None
    cause: str | None = None
    exit_code: int | None = None
    nodes: list[str] | None = None
    run: int | None = None
    group_id: str | None = None
    task_index: int | None = None
    dag_id: str | None = None
    project: str | None = None
    tags: dict[str, str] | None = None
    what: str = "allocation"
    session: bool | None = None

    @property
    def is_terminal(self) -> bool:
        return self.what in ("allocation", "dag") and self.state in TERMINAL_STATES
