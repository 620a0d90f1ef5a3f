"""Systems of the site that servers send to and ask."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from lattice.config.sections.values import Period, Url, ViewPath


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


class VaultSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where vault:// leads: the key-value engine, version 2. `token` is a reference to a secret, env:// or file://."""

    address: Annotated[str, Meta(pattern=r"^(https?://[^\s/]+)?$")] = ""  # URL of Vault; empty = no Vault
    token: str = ""  # Vault token, as an env:// or file:// reference
    mount: str = "secret"  # mount point of the key-value engine
    namespace: str = ""  # Vault namespace; empty = none
    ca_file: str = ""  # PEM file with the authorities of Vault; empty = those of the system
    timeout: Period = 5.0  # longest time for one request


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
