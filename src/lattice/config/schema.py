"""The settings of a server: every section of its file, by subject in `sections/`. Bounds and defaults stand at the keys."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from lattice.config.sections.data import DataSection
from lattice.config.sections.front import ApiSection, RateLimitsSection, WebSection
from lattice.config.sections.keeping import (
    ArchiveSection,
    AuditSection,
    BackupSection,
    LogSection,
    LogsSection,
    ObjectStoreSection,
    RetentionSection,
    SnapshotsSection,
)
from lattice.config.sections.nodes import NodeAgentSection, NodeSection, OpenChamiSection, SensitiveSection
from lattice.config.sections.outside import NotificationsSection, TelemetrySection, TracingSection, VaultSection
from lattice.config.sections.quorum import QuorumSection, UpgradeSection
from lattice.config.sections.values import Name
from lattice.config.sections.work import (
    CheckpointSection,
    CompatSection,
    DefaultsSection,
    ImagesSection,
    SchedulingSection,
    SlurmSection,
    SubmissionSection,
)


class ServerConfig(Struct, frozen=True, kw_only=True):
    data_dir: Annotated[str, Meta(min_length=1)]  # directory of the log, snapshots, archive and keys
    api: ApiSection
    name: Name = "server"  # name of this server, unique in its quorum
    mode: Literal["dev", "production"] = "production"  # `dev` relaxes limits and checks for a cluster on one machine
    # where listeners on every address (0.0.0.0) really listen: `any`, a name in `networks`, a CIDR or an interface
    bind_network: Annotated[str, Meta(min_length=1, max_length=64)] = "any"
    networks: dict[str, str] = {}  # names for `bind_network`: `hsn: 10.1.0.0/16`, or the name of an interface
    log: LogSection = LogSection()
    quorum: QuorumSection = QuorumSection()
    node_agent: NodeAgentSection = NodeAgentSection()
    node: NodeSection = NodeSection()
    scheduling: SchedulingSection = SchedulingSection()
    snapshots: SnapshotsSection = SnapshotsSection()
    backup: BackupSection = BackupSection()
    archive: ArchiveSection = ArchiveSection()
    logs: LogsSection = LogsSection()
    retention: RetentionSection = RetentionSection()
    object_store: ObjectStoreSection = ObjectStoreSection()
    defaults: DefaultsSection = DefaultsSection()
    notifications: NotificationsSection = NotificationsSection()
    submission: SubmissionSection = SubmissionSection()
    slurm: SlurmSection = SlurmSection()
    compat: CompatSection = CompatSection()
    audit: AuditSection = AuditSection()
    rate_limits: RateLimitsSection = RateLimitsSection()
    vault: VaultSection = VaultSection()
    sensitive: SensitiveSection = SensitiveSection()
    openchami: OpenChamiSection = OpenChamiSection()
    upgrade: UpgradeSection = UpgradeSection()
    images: ImagesSection = ImagesSection()
    checkpoint: CheckpointSection = CheckpointSection()
    web: WebSection = WebSection()
    data: DataSection = DataSection()
    tracing: TracingSection = TracingSection()
    telemetry: TelemetrySection = TelemetrySection()
    log_level: Literal["debug", "info", "warning", "error"] = "info"  # least severe messages that are logged
