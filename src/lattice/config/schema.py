"""The settings of a server: every key, its type, its bounds and its default."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field


class DurationText:
    """Marks a number of seconds that may be written as text: 500ms, 10s, 5m, 1h30m."""


Period = Annotated[float, Meta(gt=0, le=10 * 365 * 86400), DurationText()]
Delay = Annotated[float, Meta(ge=0, le=10 * 365 * 86400), DurationText()]
Count = Annotated[int, Meta(ge=1)]
Limit = Annotated[int, Meta(ge=0)]
Name = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Listen = Annotated[str, Meta(pattern=r"^(\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]]+):\d{1,5}$")]


class LogSection(Struct, frozen=True, kw_only=True):
    kind: Literal["sqlite", "memory"] = "sqlite"


class PeerSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One server as the others reach it: REST, the agents' port, and both ports of its etcd member."""

    name: Name
    rest: Annotated[str, Meta(pattern=r"^https?://[^\s/]+$")]
    grpc: Listen
    client: Listen
    peer: Listen


class QuorumSection(Struct, frozen=True, kw_only=True):
    """`peers` names all servers, this one too. With a `token` all of them begin together; without, one begins and others join."""

    kind: Literal["sqlite", "etcd"] = "sqlite"
    peers: list[PeerSection] = []
    token: str = ""
    client_listen: str = ""  # empty = the address by which the others reach it
    peer_listen: str = ""
    internal_listen: str = ""  # for other servers only; empty = the host of `peer` and the port after its
    relay_listen: str = ""  # where other servers bring their agents; empty = two ports behind that of peers
    certificates: str = ""  # empty = `certificates` in the data directory
    clock_skew_limit: Period = 0.5  # a server whose clock differs by more is warned about
    clock_step_limit: Period = 60.0  # one whose clock jumps or differs by more does not lead
    program: str = "etcd"
    quota_bytes: Annotated[int, Meta(ge=16 << 20, le=8 << 30)] = 4 << 30  # of each member's database
    lease_s: Annotated[int, Meta(ge=2, le=60)] = 4


class GrpcTlsSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """gRPC with TLS on an address of its own, for clients. With `client_authority` they show a certificate, too."""

    listen: Annotated[str, Meta(pattern=r"^((\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]]+):\d{1,5})?$")] = ""  # empty = none
    certificate: str = ""
    key: str = ""
    client_authority: str = ""


class TlsSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The server's certificate and key, on REST and gRPC; files that are replaced are taken up without a restart.

    `client_ca` is who may vouch for node agents besides this cluster itself, on `api.agent_listen`.
    """

    certificate: str = ""
    key: str = ""
    client_ca: str = ""
    reload_every: Period = 30.0


class OidcSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What tokens of `api.oidc_issuer` have to be like, and what they say. Claims are named as the provider writes them."""

    algorithms: list[Literal["RS256", "ES256"]] = field(default_factory=lambda: ["RS256", "ES256"])
    audiences: list[str] = []  # empty = api.oidc_client_id
    clock_skew: Delay = 30.0
    user_claim: Name = "sub"
    account_claim: str = ""  # the POSIX account; empty = called as the user
    tenants_claim: Name = "tenants"
    default_tenants: list[Name] = []  # of tokens that name none
    roles_from_scopes: bool = (
        True  # False where the provider grants any scope that is asked for: then role claims decide alone
    )
    own_user_tokens: bool = True  # tokens for people that are signed with api.hmac_secret are accepted, too
    keys_every: Period = 300.0
    recheck: Literal["none", "userinfo", "introspection"] = "none"  # how long streams find out about revoked tokens
    client_secret: str = ""  # a reference; only for introspection
    ca_file: str = ""  # whom to trust instead of the system's authorities
    # Some providers give programs on people's machines a "secret", too; every user who logs in receives it.
    public_client_secret: str = ""
    # What `lattice login` asks for, and which of the tokens it gets is shown to this cluster.
    scopes: list[str] = field(default_factory=lambda: ["openid", "profile", "offline_access"])
    login_token: Literal["access_token", "id_token"] = "access_token"  # noqa: S105 - a kind of token


class ConnectionLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of the listener for REST, and of the Unix socket alike. `descriptors_kept` are never used for connections."""

    head_bytes: Annotated[int, Meta(ge=8192, le=1 << 20)] = 64 << 10
    headers: Annotated[int, Meta(ge=20, le=1000)] = 100
    head_timeout: Period = 10.0  # from the first byte of a head to its last
    body_idle_timeout: Period = 30.0  # without a byte of the body
    connections: Annotated[int, Meta(ge=1)] = 16_384
    connections_per_address: Annotated[int, Meta(ge=1)] = 4_096
    descriptors_kept: Annotated[int, Meta(ge=64)] = 256


class ApiSection(Struct, frozen=True, kw_only=True):
    """Port 0 = a free one. `advertised_url` is the address given to workloads; without it, where REST listens."""

    hmac_secret: str
    rest_listen: Listen = "127.0.0.1:8080"
    unix_socket: str = ""  # a path: users of this machine read the status of nodes there without a token; empty = none
    grpc_listen: Listen = "127.0.0.1:50051"
    agent_listen: Annotated[str, Meta(pattern=r"^((\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]]+):\d{1,5})?$")] = (
        ""  # agents by mutual TLS
    )
    tls: TlsSection = TlsSection()
    oidc_issuer: Annotated[str, Meta(pattern=r"^(https?://\S+)?$")] = ""
    oidc_client_id: str = ""
    oidc: OidcSection = OidcSection()
    token_revalidation_interval: Period = 300.0  # of those who follow streams
    node_domain: str = (
        ""  # of agents' certificates: NODE.node_domain; needed with client_ca, unless agents have SPIFFE ids
    )
    node_spiffe_id: str = ""  # of agents' certificates, with {node} in it: spiffe://site/lattice/agent/{node}
    node_certificate_lifetime: Period = 86400.0  # of those that this cluster issues
    grpc_tls: GrpcTlsSection = GrpcTlsSection()
    advertised_url: Annotated[str, Meta(pattern=r"^(https?://[^\s/]+)?$")] = ""
    allocation_token_lifetime: Period = 86400.0  # at the most; work that takes longer gets new ones
    limits: ConnectionLimits = ConnectionLimits()


class NodeAgentSection(Struct, frozen=True, kw_only=True):
    heartbeat_interval_s: Period = 10.0
    heartbeat_timeout_s: Period = 30.0
    grace_period_s: Period = 60.0
    sensitive_heartbeat_timeout_s: Period = 120.0  # of nodes that are claimed or do sensitive work
    sensitive_grace_period_s: Period = 300.0
    borrowed_grace_period_s: Period = 30.0  # of nodes that work for a vCluster which is not theirs
    boot_timeout_s: Period = 600.0  # a node that is not Ready by then failed to boot
    stop_grace_s: Delay = 30.0  # between SIGTERM and SIGKILL
    order_retry_s: Period = 2.0  # an order that shows no effect is sent again
    start_timeout_s: Period = 60.0  # a run that its node has not started by then is taken back
    reconcile_every_s: Period = 30.0


NodeEvent = Literal[
    "Unknown", "Booting", "Ready", "Degraded", "Down", "Draining", "Drained", "Failed", "Quarantine", "unfit", "fit"
]


class NodeSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`event_script` is run on the leading server with node events as JSON on its standard input; none = no script.

    `reboot_program` reboots the nodes that its standard input names; none = operators do that by hand.
    """

    event_script: list[str] = []
    event_script_timeout: Period = 30.0
    event_script_per_minute: Annotated[int, Meta(ge=1, le=600)] = 10
    event_script_states: list[NodeEvent] = []  # moves into these, nodes that are unfit or fit again; none = everything
    reboot_program: list[str] = []
    reboot_timeout: Period = 120.0


class SchedulingSection(Struct, frozen=True, kw_only=True):
    cycle_interval_s: Period = 5.0
    merge_ms: Annotated[int, Meta(ge=0, le=10_000)] = 50
    energy_prices: str = ""  # a CSV file or an http(s) address; empty = prices are not known


class SnapshotsSection(Struct, frozen=True, kw_only=True):
    """`every_commands` and `keep` are about those on the server's disk; `to_object_store` and `every` about copies elsewhere."""

    every_commands: Count = 20_000
    keep: Count = 5
    to_object_store: bool = False
    every: Period = 3600.0


class BackupSection(Struct, frozen=True, kw_only=True):
    directory: str = ""  # empty = `backups` in the data directory


class ArchiveSection(Struct, frozen=True, kw_only=True):
    after_s: Delay = 300.0


class ObjectStoreSection(Struct, frozen=True, kw_only=True):
    directory: str = ""  # empty = `objects` beside the data directory's log


class DefaultsSection(Struct, frozen=True, kw_only=True):
    """What the first start creates, and what a submission gets that names nothing."""

    walltime: Period = 3600.0
    tenant: Name = "default"
    vcluster: Name = "default"


class MailSection(Struct, frozen=True, kw_only=True):
    """The site's mail server; without a host nothing is mailed. `password` is a reference to a secret."""

    host: str = ""
    port: Annotated[int, Meta(ge=1, le=65535)] = 587
    security: Literal["none", "starttls", "tls"] = "starttls"
    user: str = ""
    password: str = ""
    sender: str = ""  # `NAME <ADDRESS>`, or an address
    default_domain: str = ""  # who names no address is written to at USER@default_domain
    allowed_domains: list[str] = []  # empty = all
    ca_file: str = ""  # whom to trust instead of the system's authorities


class WebhookSection(Struct, frozen=True, kw_only=True):
    """`secret` is a reference; every user's webhooks are signed with a key derived from it."""

    enabled: bool = False
    secret: str = ""
    allow_http: bool = False
    allow_private: bool = False  # also to addresses inside the site
    ca_file: str = ""


class NotificationsSection(Struct, frozen=True, kw_only=True):
    mail: MailSection = MailSection()
    webhook: WebhookSection = WebhookSection()
    retry: Period = 2.0  # after the first failure; doubled after each, five minutes at the most
    give_up_after: Period = 4 * 3600.0


class IntentSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a submission has to be like; everything that is given has to hold. Lists: one of them."""

    tenant: str | list[str] = []
    user: str | list[str] = []
    project: str | list[str] = []
    lifecycle: Literal["", "bounded", "unbounded", "reactive"] = ""
    tags: dict[str, str] = {}
    min_nodes: int | None = None
    max_nodes: int | None = None
    min_gpus: int | None = None  # per node
    max_gpus: int | None = None
    min_walltime: str | float | None = None
    max_walltime: str | float | None = None


class RuleSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    vcluster: Name
    when: IntentSection = IntentSection()
    name: str = ""


class FilterSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program of the site that sees every submission first: `command` with its arguments, or `python` as module:function."""

    command: list[str] = []
    python: Annotated[str, Meta(pattern=r"^([A-Za-z_][\w.]*:[A-Za-z_]\w*)?$")] = ""
    timeout: Period = 5.0
    at_once: Annotated[int, Meta(ge=1, le=256)] = 8
    on_failure: Literal["refuse", "accept"] = "refuse"  # when it fails, is too slow or makes no sense


class SubmissionSection(Struct, frozen=True, kw_only=True):
    """`rules` choose the vCluster of a submission that names none; the first that holds counts."""

    rules: list[RuleSection] = []
    filter: FilterSection = FilterSection()


class AuditSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The audit chain. `signing_key` is a file, made when it is not there; empty = `audit.key` in the data directory."""

    signing_key: str = ""
    seal_every: Period = 10.0
    keep: Count = 10_000  # sealed entries that stay in the state; older ones go to the object store
    archive_after: Period = 86_400.0
    retention: Period = 7 * 365.25 * 86_400


class RateLimitsSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one user may ask for; 0 = no limit. Where nothing is given, dev mode is generous."""

    attach_max_concurrent: Limit | None = None
    stream_logs_max_concurrent: Limit | None = None
    stream_metrics_max_concurrent: Limit | None = None
    watch_max_concurrent: Limit | None = None
    query_metrics_per_minute: Limit | None = None
    diagnostics_per_minute: Limit | None = None
    compare_per_minute: Limit | None = None
    audit_per_minute: Limit | None = None
    requests_per_second: Limit | None = None
    requests_burst: Annotated[int, Meta(ge=1)] | None = None


class VaultSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where vault:// leads: the key-value engine, version 2. `token` is a reference to a secret, env:// or file://."""

    address: Annotated[str, Meta(pattern=r"^(https?://[^\s/]+)?$")] = ""
    token: str = ""
    mount: str = "secret"
    namespace: str = ""
    ca_file: str = ""
    timeout: Period = 5.0


class OpenChamiSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where nodes that differ from their baseline are flagged: the State Management Daemon. Empty `url` = nowhere.

    `token` is a reference to a secret; `xnames` says how nodes are called there, where that is not by their own name.
    """

    url: Annotated[str, Meta(pattern=r"^(https?://[^\s]+)?$")] = ""
    token: str = ""
    ca_file: str = ""
    timeout: Period = 10.0
    xnames: dict[str, str] = {}


class SlurmSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names that the Slurm commands use. No `partitions` = every vCluster is one; `qos` maps names to preemption classes."""

    cluster_name: Name = "lattice"
    partitions: dict[str, Name] = {}
    qos: dict[str, Annotated[int, Meta(ge=0, le=10)]] = {}  # empty = low 2, normal 5, high 8


class CompatSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`set_slurm_env` = native submissions get SLURM_* variables, too; those of the Slurm commands always do."""

    set_slurm_env: bool = False


class SensitiveSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`wiper` is the site's command that wipes a node when sensitive work has left it: JSON on its standard input, 0 = clean."""

    wiper: list[str] = []
    wipe_timeout: Period = 1800.0  # a wipe that takes longer has failed, and its node is quarantined
    wipes_at_once: Annotated[int, Meta(ge=1, le=256)] = 32


class UpgradeSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`auto_finalize` raises the cluster's level as soon as every server supports the next one.

    Unset: a new cluster begins at the newest level, one that was upgraded waits for `lattice admin upgrade finalize`.
    false: a new cluster waits for that, too, so that its data can be read by the release before.
    """

    auto_finalize: bool | None = None


class ServerConfig(Struct, frozen=True, kw_only=True):
    data_dir: Annotated[str, Meta(min_length=1)]
    api: ApiSection
    name: Name = "server"
    mode: Literal["dev", "production"] = "production"
    log: LogSection = LogSection()
    quorum: QuorumSection = QuorumSection()
    node_agent: NodeAgentSection = NodeAgentSection()
    node: NodeSection = NodeSection()
    scheduling: SchedulingSection = SchedulingSection()
    snapshots: SnapshotsSection = SnapshotsSection()
    backup: BackupSection = BackupSection()
    archive: ArchiveSection = ArchiveSection()
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
    log_level: Literal["debug", "info", "warning", "error"] = "info"
