"""The settings of a server: every key, its type, its bounds and its default."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field


class DurationText:
    """Marks a number of seconds that may be written as text: 500ms, 10s, 5m, 1h30m."""


Period = Annotated[float, Meta(gt=0, le=10 * 365 * 86400), DurationText()]
Delay = Annotated[float, Meta(ge=0, le=10 * 365 * 86400), DurationText()]
Count = Annotated[int, Meta(ge=1)]
ViewPath = Annotated[str, Meta(pattern=r"^/\S*$", max_length=1024)]
Url = Annotated[str, Meta(pattern=r"^(https?://\S+)?$")]
Limit = Annotated[int, Meta(ge=0)]
Name = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Listen = Annotated[str, Meta(pattern=r"^(\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]]+):\d{1,5}$")]


class LogSection(Struct, frozen=True, kw_only=True):
    """`kind` is about the log that the state is made of; the other keys are about messages."""

    # where the log of a single server is kept; `memory` is for tests and loses everything at the end
    kind: Literal["sqlite", "memory"] = "sqlite"
    file: str = ""  # file for messages, reopened on SIGHUP; empty = stderr
    size: Annotated[int, Meta(ge=1 << 20)] = 1 << 30  # largest size of that file in bytes; then it becomes FILE.1
    count: Annotated[int, Meta(ge=1, le=100)] = 7  # most files that are kept


class PeerSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One server as the others reach it: REST, the agents' port, and both ports of its etcd member."""

    name: Name  # name of the server, as its own `name`
    rest: Annotated[str, Meta(pattern=r"^https?://[^\s/]+$")]  # base URL of its REST API
    grpc: Listen  # address of its port for agents and gRPC
    client: Listen  # address of its etcd member's client port
    peer: Listen  # address of its etcd member's peer port


class QuorumSection(Struct, frozen=True, kw_only=True):
    """`peers` names all servers, this one too. With a `token` all of them begin together; without, one begins and others join."""

    # `sqlite`: one server with an embedded log; `etcd`: three or five servers that share a log
    kind: Literal["sqlite", "etcd"] = "sqlite"
    peers: list[PeerSection] = []  # all servers of the quorum, this one included
    # names a new quorum whose servers all start together with --bootstrap; empty = one starts, the others join by invitation
    token: str = ""
    # where the etcd member listens for servers; empty = the `client` address of this server in `peers`
    client_listen: str = ""
    # where the etcd member listens for other members; empty = the `peer` address of this server in `peers`
    peer_listen: str = ""
    # where this server listens for other servers; empty = the host of `peer` and the port after it
    internal_listen: str = ""
    # where other servers relay their agents to; empty = the host of `peer` and the second port after it
    relay_listen: str = ""
    certificates: str = ""  # directory of the servers' own certificates; empty = `certificates` in the data directory
    # a server whose clock differs by more is reported in logs, metrics and `raft status`
    clock_skew_limit: Period = 0.5
    clock_step_limit: Period = 60.0  # a server whose clock jumps or differs by more does not lead
    program: str = "etcd"  # the etcd program: a name in PATH or a path
    quota_bytes: Annotated[int, Meta(ge=16 << 20, le=8 << 30)] = 4 << 30  # size limit of each etcd member's database
    # seconds without a sign of life after which another server takes over the leadership
    lease_s: Annotated[int, Meta(ge=2, le=60)] = 4


class GrpcTlsSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """gRPC with TLS on an address of its own, for clients. With `client_authority` they show a certificate, too."""

    # address of the TLS listener for gRPC clients; empty = none
    listen: Annotated[str, Meta(pattern=r"^((\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]]+):\d{1,5})?$")] = ""
    certificate: str = ""  # PEM file with the server's certificate chain
    key: str = ""  # PEM file with its private key
    client_authority: str = ""  # PEM file with the authorities of client certificates; empty = clients show none


class TlsSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The server's certificate and key, on REST and gRPC; files that are replaced are taken up without a restart.

    `client_ca` is who may vouch for node agents besides this cluster itself, on `api.agent_listen`.
    """

    certificate: str = ""  # PEM file with the server's certificate chain; empty = no TLS
    key: str = ""  # PEM file with its private key
    client_ca: str = ""  # PEM file with further authorities that may issue certificates for node agents
    reload_every: Period = 30.0  # how often the files are checked for changes


class OidcSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What tokens of `api.oidc_issuer` have to be like, and what they say. Claims are named as the provider writes them."""

    # accepted signature algorithms
    algorithms: list[Literal["RS256", "ES256"]] = field(default_factory=lambda: ["RS256", "ES256"])
    audiences: list[str] = []  # accepted audiences of tokens; empty = `api.oidc_client_id`
    clock_skew: Delay = 30.0  # tolerance for times in tokens
    user_claim: Name = "sub"  # claim that names the user
    account_claim: str = ""  # claim that names the POSIX account; empty = the same as the user
    tenants_claim: Name = "tenants"  # claim that lists the user's tenants
    default_tenants: list[Name] = []  # tenants of tokens that name none
    # whether scopes of a token give roles; false where the provider grants any scope, so that role claims alone decide
    roles_from_scopes: bool = True
    own_user_tokens: bool = True  # whether user tokens signed with `api.hmac_secret` are accepted as well
    keys_every: Period = 300.0  # how often the provider's keys are fetched again
    # how long-lived streams learn that their token was revoked
    recheck: Literal["none", "userinfo", "introspection"] = "none"
    client_secret: str = ""  # secret for introspection, as a reference
    ca_file: str = ""  # PEM file with the authorities of the provider; empty = those of the system
    # given to every user who logs in; only for providers that require a "secret" of public clients
    public_client_secret: str = ""
    # scopes that `lattice login` requests
    scopes: list[str] = field(default_factory=lambda: ["openid", "profile", "offline_access"])
    # which of the tokens from a login is sent to this cluster
    login_token: Literal["access_token", "id_token"] = "access_token"  # noqa: S105 - a kind of token


class ConnectionLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of the listener for REST, and of the Unix socket alike. `descriptors_kept` are never used for connections.

    Of the others a quarter is for REST, an eighth for the Unix socket, and the rest for agents and gRPC clients.
    """

    head_bytes: Annotated[int, Meta(ge=8192, le=1 << 20)] = 64 << 10  # largest request line and headers together
    headers: Annotated[int, Meta(ge=20, le=1000)] = 100  # most headers of a request
    head_timeout: Period = 10.0  # longest time from the first byte of the headers to the last
    body_idle_timeout: Period = 30.0  # longest time without a byte of the body
    connections: Annotated[int, Meta(ge=1)] = 16_384  # most open connections
    connections_per_address: Annotated[int, Meta(ge=1)] = 4_096  # most open connections from one address
    descriptors_kept: Annotated[int, Meta(ge=64)] = 256  # file descriptors that connections never use


class ApiSection(Struct, frozen=True, kw_only=True):
    """Port 0 = a free one. `advertised_url` is the address given to workloads; without it, where REST listens."""

    hmac_secret: str  # secret that signs the cluster's own tokens, the same on all servers; a reference
    rest_listen: Listen = "127.0.0.1:8080"  # address of the REST API; port 0 = any free port
    unix_socket: str = ""  # path of a socket where users of this machine read node status without a token; empty = none
    grpc_listen: Listen = "127.0.0.1:50051"  # address for agents and gRPC clients; port 0 = any free port
    # address where agents connect with mutual TLS; empty = none
    agent_listen: Annotated[str, Meta(pattern=r"^((\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]]+):\d{1,5})?$")] = ""
    # address of the gateway to web pages of running work, an origin of its own; port 0 = any free port, empty = none
    proxy_listen: Annotated[str, Meta(pattern=r"^((\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]]+):\d{1,5})?$")] = ""
    # URL of that gateway for browsers; empty = the address where it listens
    proxy_url: Annotated[str, Meta(pattern=r"^(https?://[^\s/]+)?$")] = ""
    # domain below which each page has a host of its own, as in apps.example.org for a17.apps.example.org (its DNS and certificate are for
    # *.DOMAIN); empty = all pages share the origin of proxy_url, and browsers see only pages of their own user
    proxy_domain: Annotated[str, Meta(pattern=r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$")] = ""
    tls: TlsSection = TlsSection()
    # URL of the OpenID provider; empty = only the cluster's own tokens
    oidc_issuer: Annotated[str, Meta(pattern=r"^(https?://\S+)?$")] = ""
    oidc_client_id: str = ""  # client id at the OpenID provider
    oidc: OidcSection = OidcSection()
    token_revalidation_interval: Period = 300.0  # how often the callers of open streams are authorized again
    # agents' certificates are for NODE.node_domain; needed with `client_ca`, unless agents have SPIFFE ids
    node_domain: str = ""
    node_spiffe_id: str = ""  # SPIFFE id of agents' certificates, with {node} in it: spiffe://site/lattice/agent/{node}
    node_certificate_lifetime: Period = 86400.0  # lifetime of the certificates that this cluster issues to agents
    grpc_tls: GrpcTlsSection = GrpcTlsSection()
    # URL of the REST API for workloads; empty = the address where REST listens
    advertised_url: Annotated[str, Meta(pattern=r"^(https?://[^\s/]+)?$")] = ""
    # origins (https://portal.example) whose pages may open terminals here, besides this server's own
    allowed_origins: list[str] = []
    allocation_token_lifetime: Period = 86400.0  # longest lifetime of a workload's token; longer work gets new ones
    limits: ConnectionLimits = ConnectionLimits()


class NodeAgentSection(Struct, frozen=True, kw_only=True):
    heartbeat_interval_s: Period = 10.0  # time between two heartbeats of an agent
    heartbeat_timeout_s: Period = 30.0  # silence after which a node is Degraded
    grace_period_s: Period = 60.0  # further silence after which a Degraded node is Down
    # `heartbeat_timeout_s` of nodes that are claimed or run sensitive work
    sensitive_heartbeat_timeout_s: Period = 120.0
    sensitive_grace_period_s: Period = 300.0  # `grace_period_s` of those nodes
    borrowed_grace_period_s: Period = 30.0  # `grace_period_s` of nodes that work for a vCluster other than their own
    boot_timeout_s: Period = 600.0  # a node that is not Ready after this time failed to boot
    stop_grace_s: Delay = 30.0  # time between SIGTERM and SIGKILL
    order_retry_s: Period = 2.0  # an order that shows no effect is sent again after this time
    # a run that its node has not started after this time is rolled back and planned again
    start_timeout_s: Period = 60.0
    reconcile_every_s: Period = 30.0  # how often the runs of nodes are compared with the state


NodeEvent = Literal[
    "Unknown", "Booting", "Ready", "Degraded", "Down", "Draining", "Drained", "Failed", "Quarantine", "unfit", "fit"
]


class NodeSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`event_script` is run on the leading server with node events as JSON on its standard input; none = no script.

    `reboot_program` reboots the nodes that its standard input names; none = operators do that by hand.
    """

    # command and arguments, run on the leader with node events as JSON on stdin; empty = none
    event_script: list[str] = []
    event_script_timeout: Period = 30.0  # the script is killed after this time
    # most runs of the script per minute; events are gathered in between
    event_script_per_minute: Annotated[int, Meta(ge=1, le=600)] = 10
    event_script_states: list[NodeEvent] = []  # states and events that are reported to the script; empty = all
    # command and arguments that reboot the nodes named on stdin; empty = operators reboot by hand
    reboot_program: list[str] = []
    reboot_timeout: Period = 120.0  # the program is killed after this time


class SchedulingSection(Struct, frozen=True, kw_only=True):
    cycle_interval_s: Period = 5.0  # longest time between two scheduling cycles
    merge_ms: Annotated[int, Meta(ge=0, le=10_000)] = 50  # milliseconds during which events are gathered before a cycle
    energy_prices: str = ""  # CSV file or URL with energy prices; empty = prices are not known
    # JSON file or URL that says what is left of tenants' budgets; it beats the cluster's own ledger. Empty = the ledger counts
    budgets: str = ""
    budgets_token_file: str = ""  # file with the token that the URL wants; empty = none


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


class DefaultsSection(Struct, frozen=True, kw_only=True):
    """What the first start creates, and what a submission gets that names nothing."""

    walltime: Period = 3600.0  # walltime of submissions that name none
    tenant: Name = "default"  # tenant that the first start creates; used where none is named
    vcluster: Name = "default"  # vCluster that the first start creates; used where none is named


class MailSection(Struct, frozen=True, kw_only=True):
    """The site's mail server; without a host nothing is mailed. `password` is a reference to a secret."""

    host: str = ""  # mail server; empty = no mail
    port: Annotated[int, Meta(ge=1, le=65535)] = 587  # its port
    security: Literal["none", "starttls", "tls"] = "starttls"  # how the connection is encrypted
    user: str = ""  # login at the mail server; empty = none
    password: str = ""  # password at the mail server, as a reference
    sender: str = ""  # sender of the mail: an address, or `NAME <ADDRESS>`
    default_domain: str = ""  # users without an address are written to at USER@default_domain
    allowed_domains: list[str] = []  # domains that mail is sent to; empty = all
    ca_file: str = ""  # PEM file with the authorities of the mail server; empty = those of the system


class WebhookSection(Struct, frozen=True, kw_only=True):
    """`secret` is a reference; every user's webhooks are signed with a key derived from it."""

    enabled: bool = False  # whether webhooks are sent
    secret: str = ""  # every user's webhooks are signed with a key derived from it; a reference
    allow_http: bool = False  # whether webhooks may go to http:// addresses
    allow_private: bool = False  # whether webhooks may go to private addresses inside the site
    ca_file: str = ""  # PEM file with trusted authorities; empty = those of the system


class NotificationsSection(Struct, frozen=True, kw_only=True):
    mail: MailSection = MailSection()
    webhook: WebhookSection = WebhookSection()
    retry: Period = 2.0  # time until the second attempt; doubled after each, up to five minutes
    give_up_after: Period = 4 * 3600.0  # a notification is dropped after this time


class IntentSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a submission has to be like; everything that is given has to hold. Lists: one of them."""

    tenant: str | list[str] = []  # the submission's tenant
    user: str | list[str] = []  # the submission's user
    project: str | list[str] = []  # the submission's project
    lifecycle: Literal["", "bounded", "unbounded", "reactive"] = ""  # the submission's lifecycle; empty = any
    tags: dict[str, str] = {}  # tags that the submission has, with these values
    min_nodes: int | None = None  # at least this many nodes
    max_nodes: int | None = None  # at most this many nodes
    min_gpus: int | None = None  # at least this many GPUs per node
    max_gpus: int | None = None  # at most this many GPUs per node
    min_walltime: str | float | None = None  # at least this walltime
    max_walltime: str | float | None = None  # at most this walltime


class RuleSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    vcluster: Name  # vCluster that the rule chooses
    when: IntentSection = IntentSection()
    name: str = ""  # shown to the user as `chosen_by`


class FilterSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program of the site that sees every submission first: `command` with its arguments, or `python` as module:function."""

    command: list[str] = []  # program and arguments that judge submissions; empty = none
    # function that judges submissions, `module:function`; empty = none
    python: Annotated[str, Meta(pattern=r"^([A-Za-z_][\w.]*:[A-Za-z_]\w*)?$")] = ""
    timeout: Period = 5.0  # a filter that takes longer has failed
    at_once: Annotated[int, Meta(ge=1, le=256)] = 8  # filters that run at the same time
    # what happens to a submission when the filter fails, times out or gives no valid answer
    on_failure: Literal["refuse", "accept"] = "refuse"


class SubmissionSection(Struct, frozen=True, kw_only=True):
    """`rules` choose the vCluster of a submission that names none; the first that holds counts."""

    rules: list[RuleSection] = []
    filter: FilterSection = FilterSection()


class AuditSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The audit chain. `signing_key` is a file, made when it is not there; empty = `audit.key` in the data directory."""

    # PEM file with the signing key, created if it does not exist; empty = `audit.key` in the data directory
    signing_key: str = ""
    seal_every: Period = 10.0  # longest time until entries are signed
    keep: Count = 10_000  # sealed entries kept in the state; older ones move to the object store
    archive_after: Period = 86_400.0  # sealed entries older than this move to the object store
    retention: Period = 7 * 365.25 * 86_400  # archived entries older than this are deleted


class RateLimitsSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one user may ask for; 0 = no limit. Where nothing is given, dev mode is generous."""

    attach_max_concurrent: Limit | None = None  # open terminals of one user
    stream_logs_max_concurrent: Limit | None = None  # followed outputs of one user
    stream_metrics_max_concurrent: Limit | None = None  # followed metrics of one user
    watch_max_concurrent: Limit | None = None  # watched streams of changes of one user
    wait_max_concurrent: Limit | None = None  # long polls of one user
    follow_step_max_concurrent: Limit | None = None  # followed steps of one user
    connect_port_max_concurrent: Limit | None = None  # connections of one user to ports of running work
    query_metrics_per_minute: Limit | None = None  # metric queries of one user per minute
    diagnostics_per_minute: Limit | None = None  # diagnostics of one user per minute
    compare_per_minute: Limit | None = None  # comparisons of one user per minute
    audit_per_minute: Limit | None = None  # audit queries of one user per minute
    requests_per_second: Limit | None = None  # requests of one user per second
    requests_burst: Annotated[int, Meta(ge=1)] | None = None  # requests of one user at once after a pause


class VaultSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where vault:// leads: the key-value engine, version 2. `token` is a reference to a secret, env:// or file://."""

    address: Annotated[str, Meta(pattern=r"^(https?://[^\s/]+)?$")] = ""  # URL of Vault; empty = no Vault
    token: str = ""  # Vault token, as an env:// or file:// reference
    mount: str = "secret"  # mount point of the key-value engine
    namespace: str = ""  # Vault namespace; empty = none
    ca_file: str = ""  # PEM file with the authorities of Vault; empty = those of the system
    timeout: Period = 5.0  # longest time for one request


class OpenChamiSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where nodes that differ from their baseline are flagged: the State Management Daemon. Empty `url` = nowhere.

    `token` is a reference to a secret; `xnames` says how nodes are called there, where that is not by their own name.
    """

    url: Annotated[str, Meta(pattern=r"^(https?://[^\s]+)?$")] = ""  # URL of the State Management Daemon; empty = none
    token: str = ""  # access token, as a reference
    ca_file: str = ""  # PEM file with its authorities; empty = those of the system
    timeout: Period = 10.0  # longest time for one request
    xnames: dict[str, str] = {}  # names of nodes there, where they differ from ours


class SlurmSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names that the Slurm commands use. No `partitions` = every vCluster is one; `qos` maps names to preemption classes."""

    # name of the cluster in Slurm commands, and beside its data: servers refuse the data of a cluster with another name
    cluster_name: Name = "lattice"
    # partition names and their vClusters; empty = every vCluster is a partition of its own name
    partitions: dict[str, Name] = {}
    # QoS names and their preemption classes; empty = low 2, normal 5, high 8
    qos: dict[str, Annotated[int, Meta(ge=0, le=10)]] = {}
    # whether the shell of salloc runs on the first node of the allocation; a command that salloc names runs where salloc does
    salloc_on_node: bool = False


class CompatSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`set_slurm_env` = native submissions get SLURM_* variables, too; those of the Slurm commands always do."""

    set_slurm_env: bool = False  # whether native submissions get SLURM_* variables; those of Slurm commands always do


class SensitiveSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`wiper` is the site's command that wipes a node when sensitive work has left it: JSON on its standard input, 0 = clean."""

    wiper: list[str] = []  # command and arguments that wipe a node: JSON on stdin, exit code 0 = clean; empty = none
    wipe_timeout: Period = 1800.0  # a wipe that takes longer has failed, and its node is quarantined
    wipes_at_once: Annotated[int, Meta(ge=1, le=256)] = 32  # wipes that run at the same time


class RegistrySection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A registry that speaks OCI distribution, from which `--image HOST/REPOSITORY:TAG` may be taken."""

    # as users write it: HOST or HOST:PORT
    host: Annotated[str, Meta(pattern=r"^(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9.-]+)(:\d{1,5})?$")]
    username: str = ""  # account of the servers there; empty = none
    password: str = ""  # its password or access token, by reference: file://, env:// or vault://
    plain_http: bool = False  # asked without TLS, as a registry on the same machine always is


class ImagesSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where names of images (`--uenv`) come from."""

    # directory with images as NAME/VERSION/TAG.squashfs, under the same path on servers and nodes; empty = paths only
    directory: str = ""
    # in its place a registry, oci://HOST/PREFIX with PREFIX/NAME/VERSION:TAG, or a web server, https://HOST/PATH with SHA256SUMS
    url: Annotated[str, Meta(pattern=r"^$|^(oci|https?)://[A-Za-z0-9.\[\]:-]+(/[A-Za-z0-9._/-]*)?$")] = ""
    keys: list[str] = []  # files with public keys (PEM, Ed25519 or ECDSA) that sign images
    registries: list[RegistrySection] = []  # registries from which containers may be taken; nodes have --registries


class CheckpointSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where work writes its checkpoints."""

    # first value of the setting `checkpoint.root`: a directory of every node; empty = none until it is set
    root: Annotated[str, Meta(max_length=512)] = ""


class HotTierSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where copies are that work reads: a file system that movers and nodes share."""

    directory: str = ""  # directory of the hot tier, under the same path for movers and nodes; empty = there is none
    size: Limit = 0  # bytes that all copies together may have; 0 = what its file system has
    # bytes per second that it can write, of which the setting staging.bandwidth is for staging; 0 = no limit
    bandwidth: Limit = 0
    tenants: dict[str, Limit] = {}  # most bytes that copies of a tenant may have; tenants not named here have no limit
    high: Annotated[float, Meta(gt=0, le=1)] = 0.9  # part of the size above which nothing is added
    low: Annotated[float, Meta(ge=0, le=1)] = 0.7  # part down to which copies leave that were not used for longest


class WarmTierSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A directory or a bucket from which users may take data."""

    url: Annotated[str, Meta(pattern=r"^(file:///.+|s3://[a-z0-9][a-z0-9.-]+[a-z0-9])$")]  # file:///PATH or s3://BUCKET
    tenants: list[Name] = []  # tenants that may use it; empty = all
    endpoint: str = ""  # address of the S3 service; empty = Amazon's
    region: str = "us-east-1"  # region of the bucket
    key_id: str = ""  # name of the access key: the name itself or a reference; read by movers alone
    key_secret: str = ""  # its secret, as a reference; read by movers alone
    ca_file: str = ""  # PEM file with authorities of the service, besides those of the system
    timeout: Period = 60.0  # longest time of one request
    # whether results (--stage-out) may go to this bucket; in a directory the rights of the user decide
    writable: bool = False


class ColdTierSection(WarmTierSection, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An archive: what is in it is restored before it is copied to the hot tier."""

    # program that brings PATH, added as its last argument, back to a file:// archive: exit code 0 = it is there, 75 = ask again
    recall: list[str] = []
    restore_days: Annotated[int, Meta(ge=1, le=365)] = 7  # days that objects stay restored
    restore_speed: Literal["Bulk", "Standard", "Expedited"] = "Standard"  # how fast objects are restored


class DataTiersSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    hot: HotTierSection = HotTierSection()
    warm: list[WarmTierSection] = []  # places from which data may be taken
    cold: list[ColdTierSection] = []  # archives: data is restored before it is copied


class ExportSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An NFS export: a node that has it as `directory` binds it, another one mounts it for the run."""

    name: Name  # NAME in nfs://NAME/path
    tenants: list[Name] = []  # tenants that may use it; empty = all
    directory: str = ""  # where nodes have it mounted
    # HOST:/PATH, as mount.nfs takes it, for nodes that do not have it; empty = they refuse the work
    address: Annotated[str, Meta(pattern=r"^([A-Za-z0-9\[][^\s,]*:/\S*)?$")] = ""
    # options of that mount, beside nosuid and nodev
    options: Annotated[str, Meta(pattern=r"^[A-Za-z0-9=,._:/-]*$")] = ""


class DataSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Data of work (`--data-mount`): where it may come from, and where copies are made of it."""

    tiers: DataTiersSection = DataTiersSection()
    exports: list[ExportSection] = []  # what users name as nfs://NAME/path
    # directories below which users may have data mounted; nodes have --data-targets
    targets: list[str] = field(default_factory=lambda: ["/data", "/datasets", "/input", "/mnt", "/workspace"])
    mover_timeout: Period = 15.0  # a mover that is silent for this long has lost its copies to others
    # where what work leaves in $LATTICE_OUTPUT goes unless it says so itself, such as s3://results/{tenant}/{project}/{id}; {id} is needed,
    # {user} and {node} are known too, nodes need a scratch directory; empty = nowhere
    output: Annotated[str, Meta(pattern=r"^((file://|s3://)[^\s]*\{id\}[^\s]*)?$")] = ""


class UpgradeSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`auto_finalize` raises the cluster's level as soon as every server supports the next one.

    Unset: a new cluster begins at the newest level, one that was upgraded waits for `lattice admin upgrade finalize`.
    false: a new cluster waits for that, too, so that its data can be read by the release before.
    `program` replaces the software of agents and servers in `lattice admin upgrade start`, on the leading server; every server needs it.
    """

    auto_finalize: bool | None = None  # whether the level is raised automatically; see above for unset
    # command and arguments that replace the software of the nodes or servers named on stdin; empty = no rolling upgrades
    program: list[str] = []
    program_timeout: Period = 300.0  # the program is killed after this time
    return_within: Period = 600.0  # a node or server that has not returned with the new release by then has failed


class WebSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The web page at `/` of the REST address."""

    enabled: bool = True  # whether this server serves the page; the API is served either way
    # URL of the page for browsers, where they reach it through a proxy; empty = the address that the browser names
    url: Annotated[str, Meta(pattern=r"^(https?://[^\s/]+)?$")] = ""
    session_lifetime: Period = 12 * 3600.0  # longest time that a browser stays logged in


class TracingSection(Struct, frozen=True, kw_only=True):
    """Spans of requests and work whose caller sent a `traceparent`; they name no tenant, project or user."""

    otlp_endpoint: Annotated[str, Meta(pattern=r"^(https?://\S+)?$")] = (
        ""  # collector of OpenTelemetry, to which /v1/traces is added; empty = no traces
    )
    token: str = ""  # sent to the collector as a bearer token; a reference


class TelemetrySection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The time-series store that agents send to, where the servers ask it: `top`, `compare` and `diag` are answered from there."""

    tsdb_endpoint: Url = ""  # store with a PromQL interface (/api/v1/query is added); empty = the nodes are asked
    query_url: Url = ""  # the PromQL interface where figures are read, if not there; empty = tsdb_endpoint
    tsdb_token: str = ""  # bearer token for it, as a reference
    tsdb_ca_file: str = ""  # PEM file with its authorities; empty = those of the system
    tsdb_timeout: Period = 3.0  # longest time for one request; then the nodes are asked
    storage_endpoint: Url = ""  # management interface of VAST, for guaranteed rates in `diag`; empty = not known
    storage_token: str = ""  # API token for it, as a reference
    storage_ca_file: str = ""  # PEM file with its authorities; empty = those of the system
    storage_views: list[ViewPath] = []  # paths of its views that users see


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
