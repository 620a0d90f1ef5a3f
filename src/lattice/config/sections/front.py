"""Where clients, browsers and agents connect, and who may."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from lattice.config.sections.values import Delay, Limit, Listen, Name, Period


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


class WebSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The web page at `/` of the REST address."""

    enabled: bool = True  # whether this server serves the page; the API is served either way
    # URL of the page for browsers, where they reach it through a proxy; empty = the address that the browser names
    url: Annotated[str, Meta(pattern=r"^(https?://[^\s/]+)?$")] = ""
    session_lifetime: Period = 12 * 3600.0  # longest time that a browser stays logged in
