"""Revisions of services: update, roll back, list."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from lattice_sdk.models.runs import ContainerOptions, ProbeRequest
from lattice_sdk.operation import Steps, at, given, operation, read, write
from lattice_sdk.registry.models import Revisions

POLL_MARGIN_S = 10.0  # beyond the time that the server takes for a long poll


class ServiceChanges(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What instances of a service run from now on; what is left out stays as it is."""

    entrypoint: str | Sequence[str] | None = None
    script: str | None = None
    script_args: Sequence[str] = ()
    environment: Mapping[str, str] = {}
    unset_environment: Sequence[str] = ()
    uenv: str = ""
    view: str = ""
    tools_uenv: str = ""
    image: str = ""
    container: ContainerOptions | None = None
    liveness_probe: ProbeRequest | None = None
    readiness_probe: ProbeRequest | None = None
    startup_probe: ProbeRequest | None = None
    drain: str | int | None = None
    max_unavailable: int = 1
    ready_within: str | int | None = None
    note: str = ""


class RevisionCalls:
    @operation
    def update_service(self, allocation_id: str, changes: ServiceChanges, *, request_id: str = "") -> Steps[Revisions]:
        """Runs something else in a service, node by node; returns when the update has begun."""
        return write("POST", at("allocations", allocation_id, "revisions"), Revisions, changes, request_id)

    @operation
    def roll_back_service(
        self,
        allocation_id: str,
        *,
        to: int = 0,
        max_unavailable: int = 1,
        ready_within: str | int | None = None,
        request_id: str = "",
    ) -> Steps[Revisions]:
        """Takes an update back, or runs an earlier revision again; 0 = the one before."""
        fields: dict[str, object] = {"to": to, "max_unavailable": max_unavailable, "ready_within": ready_within}
        return write("POST", at("allocations", allocation_id, "rollback"), Revisions, fields, request_id)

    @operation
    def list_revisions(self, allocation_id: str, *, timeout_s: float = 0.0) -> Steps[Revisions]:
        """What a service runs and ran. With a timeout, the answer comes when the update is over, or with the time."""
        asked = given(timeout=f"{timeout_s:g}" if timeout_s else "")
        return read(
            at("allocations", allocation_id, "revisions"),
            Revisions,
            asked,
            timeout_s=timeout_s + POLL_MARGIN_S if timeout_s else None,
        )
