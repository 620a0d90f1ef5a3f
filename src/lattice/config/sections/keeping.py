"""What servers write down, where, and how long it is kept."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from lattice.config.sections.values import Count, Delay, Period


class LogSection(Struct, frozen=True, kw_only=True):
    """`kind` is about the log that the state is made of; the other keys are about messages."""

    # where the log of a single server is kept; `memory` is for tests and loses everything at the end
    kind: Literal["sqlite", "memory"] = "sqlite"
    file: str = ""  # file for messages, reopened on SIGHUP; empty = stderr
    size: Annotated[int, Meta(ge=1 << 20)] = 1 << 30  # largest size of that file in bytes; then it becomes FILE.1
    count: Annotated[int, Meta(ge=1, le=100)] = 7  # most files that are kept


class SnapshotsSection(Struct, frozen=True, kw_only=True):
    """`every_commands` and `keep` are about those on the server's disk; `to_object_store` and `every` about copies elsewhere."""

    every_commands: Count = 20_000  # most commands between two snapshots on the server's disk
    keep: Count = 5  # snapshots kept on the server's disk
    to_object_store: bool = False  # whether the leader copies snapshots to the object store
    every: Period = 3600.0  # time between two such copies


class BackupSection(Struct, frozen=True, kw_only=True):
    directory: str = ""  # directory for backups; empty = `backups` in the data directory


class ArchiveSection(Struct, frozen=True, kw_only=True):
    after_s: Delay = 300.0  # how long finished allocations stay in the state before they are archived


class LogsSection(Struct, frozen=True, kw_only=True):
    """Output of work in the object store. What a vCluster says counts before what a tenant says."""

    retention: Period = 30 * 86400.0  # how long output is kept
    tenants: dict[str, Period] = {}  # the same for output of these tenants
    vclusters: dict[str, Period] = {}  # the same for work in these; sensitive ones keep output without an entry here


class RetentionSection(Struct, frozen=True, kw_only=True):
    """What else work leaves behind. Results that work writes to data tiers are never removed."""

    checkpoints: Delay = 7 * 86400.0  # how long checkpoints are kept after the end of their work; 0 = for good
    traces: Delay = 7 * 86400.0  # how long recordings of `scheduler.trace_capture` are kept; 0 = for good
    telemetry: Delay = 7 * 86400.0  # how long samples of mode debug are kept; 0 = for good
    access: Delay = 7 * 365.25 * 86400  # how long records of what sensitive work touched are kept; 0 = for good


class ObjectStoreSection(Struct, frozen=True, kw_only=True):
    """A directory that all servers share, or a bucket of a service that speaks S3; not both."""

    directory: str = ""  # directory of the object store; empty = `objects` in the data directory
    bucket: str = ""  # bucket of the object store; empty = objects are files. Needs the extra `lattice-hpc[s3]`
    tenants: dict[str, str] = {}  # buckets of their own, at the same service, for output of the work of these tenants
    endpoint: str = ""  # address of the S3 service, such as https://s3.example.org; empty = Amazon's
    region: str = "us-east-1"  # region of the bucket; services other than Amazon's take any
    key_id: str = ""  # name of the access key: the name itself or a reference
    key_secret: str = ""  # secret of the access key, as a reference
    ca_file: str = ""  # PEM file with authorities of the service, besides those of the system
    timeout: Period = 60.0  # longest time of one request


class AuditSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The audit chain. `signing_key` is a file, made when it is not there; empty = `audit.key` in the data directory."""

    # PEM file with the signing key, created if it does not exist; empty = `audit.key` in the data directory
    signing_key: str = ""
    seal_every: Period = 10.0  # longest time until entries are signed
    keep: Count = 10_000  # sealed entries kept in the state; older ones move to the object store
    archive_after: Period = 86_400.0  # sealed entries older than this move to the object store
    retention: Period = 7 * 365.25 * 86_400  # archived entries older than this are deleted
