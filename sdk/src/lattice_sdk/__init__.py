"""Client library of Lattice.

from lattice_sdk import AllocationSpec, Client

with Client.from_environment() as client:
    allocation = client.submit(AllocationSpec(entrypoint=["hostname"]))
    print(client.wait(allocation.id).state)
"""

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from lattice_sdk.aio import LatticeClient
    from lattice_sdk.executor.chunks import TaskFailed
    from lattice_sdk.executor.pool import Executor

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


def __getattr__(name: str) -> object:
    """Some names bring large libraries along; only a program that asks for them imports those."""
    if name == "LatticeClient":
        from lattice_sdk.aio import LatticeClient

        return LatticeClient
    if name == "Executor":
        from lattice_sdk.executor.pool import Executor

        return Executor
    if name == "TaskFailed":
        from lattice_sdk.executor.chunks import TaskFailed

        return TaskFailed
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
