"""Client library of Lattice.

from lattice_sdk import AllocationSpec, Client

with Client.from_environment() as client:
    allocation = client.submit(AllocationSpec(entrypoint=["hostname"]))
    print(client.wait(allocation.id).state)
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lattice_sdk.aio import LatticeClient
    from lattice_sdk.calls.streams import LogsPart
    from lattice_sdk.client import Client, new_request_id
    from lattice_sdk.errors import (
        ApiError,
        BadAnswer,
        Conflict,
        Forbidden,
        Invalid,
        LatticeAuthError,
        LatticeError,
        LatticeNotFoundError,
        NotAuthenticated,
        NotConfigured,
        NotFound,
        NoToken,
        Refused,
        ServerFault,
        Unavailable,
        Unreachable,
        WaitTimedOut,
    )
    from lattice_sdk.executor.chunks import TaskFailed
    from lattice_sdk.executor.pool import Executor
    from lattice_sdk.models.changes import Event
    from lattice_sdk.models.notifications import NotifyRequest, NotifySettings, WebhookKey
    from lattice_sdk.models.records import (
        TERMINAL_STATES,
        Allocation,
        AllocationFilter,
        BatchOutcome,
        CancelOutcome,
        Constraints,
        Counts,
        Details,
        Explanation,
        LifecycleRequest,
        LogChunk,
        LogLine,
        Node,
        OutputFiles,
        Page,
        Project,
        QuorumInvitation,
        QuorumMember,
        QuorumServer,
        QuorumStatus,
        Refusal,
        Reservation,
        ResourceRequest,
        Resources,
        SchedulerStatus,
        Setting,
        Submission,
        TaskCounts,
        Tenant,
        Usage,
        UserUsage,
        Vcluster,
        Whoami,
    )
    from lattice_sdk.models.runs import Instance, Probe, ProbeRequest, Service
    from lattice_sdk.models.upgrades import RenewedCertificate
    from lattice_sdk.retry import RetryPolicy
    from lattice_sdk.specification import AllocationSpec
    from lattice_sdk.streams import LogStream, Watch

__version__ = "0.2.0"

__all__ = [
    "TERMINAL_STATES",
    "Allocation",
    "AllocationFilter",
    "AllocationSpec",
    "ApiError",
    "BadAnswer",
    "BatchOutcome",
    "CancelOutcome",
    "Client",
    "Conflict",
    "Constraints",
    "Counts",
    "Details",
    "Event",
    "Executor",
    "Explanation",
    "Forbidden",
    "Instance",
    "Invalid",
    "LatticeAuthError",
    "LatticeClient",
    "LatticeError",
    "LatticeNotFoundError",
    "LifecycleRequest",
    "LogChunk",
    "LogLine",
    "LogStream",
    "LogsPart",
    "NoToken",
    "Node",
    "NotAuthenticated",
    "NotConfigured",
    "NotFound",
    "NotifyRequest",
    "NotifySettings",
    "OutputFiles",
    "Page",
    "Probe",
    "ProbeRequest",
    "Project",
    "QuorumInvitation",
    "QuorumMember",
    "QuorumServer",
    "QuorumStatus",
    "Refusal",
    "Refused",
    "RenewedCertificate",
    "Reservation",
    "ResourceRequest",
    "Resources",
    "RetryPolicy",
    "SchedulerStatus",
    "ServerFault",
    "Service",
    "Setting",
    "Submission",
    "TaskCounts",
    "TaskFailed",
    "Tenant",
    "Unavailable",
    "Unreachable",
    "Usage",
    "UserUsage",
    "Vcluster",
    "WaitTimedOut",
    "Watch",
    "WebhookKey",
    "Whoami",
    "__version__",
    "new_request_id",
]


# Where each name is. A program imports what it uses: all of it takes longer than a command needs to ask one question.
_PLACES = {
    "lattice_sdk.aio": ("LatticeClient",),
    "lattice_sdk.calls.streams": ("LogsPart",),
    "lattice_sdk.client": (
        "Client",
        "new_request_id",
    ),
    "lattice_sdk.errors": (
        "ApiError",
        "BadAnswer",
        "Conflict",
        "Forbidden",
        "Invalid",
        "LatticeAuthError",
        "LatticeError",
        "LatticeNotFoundError",
        "NotAuthenticated",
        "NotConfigured",
        "NotFound",
        "NoToken",
        "Refused",
        "ServerFault",
        "Unavailable",
        "Unreachable",
        "WaitTimedOut",
    ),
    "lattice_sdk.executor.chunks": ("TaskFailed",),
    "lattice_sdk.executor.pool": ("Executor",),
    "lattice_sdk.models.changes": ("Event",),
    "lattice_sdk.models.notifications": (
        "NotifyRequest",
        "NotifySettings",
        "WebhookKey",
    ),
    "lattice_sdk.models.records": (
        "TERMINAL_STATES",
        "Allocation",
        "AllocationFilter",
        "BatchOutcome",
        "CancelOutcome",
        "Constraints",
        "Counts",
        "Details",
        "Explanation",
        "LifecycleRequest",
        "LogChunk",
        "LogLine",
        "Node",
        "OutputFiles",
        "Page",
        "Project",
        "QuorumInvitation",
        "QuorumMember",
        "QuorumServer",
        "QuorumStatus",
        "Refusal",
        "Reservation",
        "ResourceRequest",
        "Resources",
        "SchedulerStatus",
        "Setting",
        "Submission",
        "TaskCounts",
        "Tenant",
        "Usage",
        "UserUsage",
        "Vcluster",
        "Whoami",
    ),
    "lattice_sdk.models.runs": (
        "Instance",
        "Probe",
        "ProbeRequest",
        "Service",
    ),
    "lattice_sdk.models.upgrades": ("RenewedCertificate",),
    "lattice_sdk.retry": ("RetryPolicy",),
    "lattice_sdk.specification": ("AllocationSpec",),
    "lattice_sdk.streams": (
        "LogStream",
        "Watch",
    ),
}
_MODULES = {name: module for module, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> object:
    module = _MODULES.get(name)
    if module is not None:
        value: object = getattr(import_module(module), name)
    elif f"{__name__}.{name}" in _PLACES:
        value = import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
