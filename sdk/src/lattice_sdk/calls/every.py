"""All operations that are one question and one answer. A new area is a module beside this one and a name in this list."""

from lattice_sdk.calls.administration import AdministrationCalls
from lattice_sdk.calls.admission import AdmissionCalls
from lattice_sdk.calls.allocations import AllocationCalls
from lattice_sdk.calls.audit import AuditCalls
from lattice_sdk.calls.backups import BackupCalls
from lattice_sdk.calls.cluster import ClusterCalls
from lattice_sdk.calls.conformance import ConformanceCalls
from lattice_sdk.calls.dags import DagCalls
from lattice_sdk.calls.health import HealthCalls
from lattice_sdk.calls.images import ImageCalls
from lattice_sdk.calls.machine_status import MachineStatusCalls
from lattice_sdk.calls.nodes import NodeCalls
from lattice_sdk.calls.notifications import NotificationCalls
from lattice_sdk.calls.reports import ReportCalls
from lattice_sdk.calls.sessions import SessionCalls
from lattice_sdk.calls.slurm import SlurmCalls
from lattice_sdk.calls.steps import StepCalls
from lattice_sdk.calls.telemetry.metrics import MetricCalls
from lattice_sdk.calls.web.page import WebCalls
from lattice_sdk.checkpoints.calls import CheckpointCalls
from lattice_sdk.observing.calls import FigureCalls
from lattice_sdk.registry.calls import ServiceCalls
from lattice_sdk.registry.revisions import RevisionCalls
from lattice_sdk.site.data_calls import DataCalls


class Calls(
    AllocationCalls,
    NodeCalls,
    MachineStatusCalls,
    AdministrationCalls,
    ClusterCalls,
    BackupCalls,
    AuditCalls,
    NotificationCalls,
    DagCalls,
    ReportCalls,
    StepCalls,
    SessionCalls,
    ServiceCalls,
    RevisionCalls,
    SlurmCalls,
    AdmissionCalls,
    ConformanceCalls,
    HealthCalls,
    ImageCalls,
    FigureCalls,
    MetricCalls,
    CheckpointCalls,
    WebCalls,
    DataCalls,
):
    """What both clients can do."""
