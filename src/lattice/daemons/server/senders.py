"""The configured senders of notifications; disabled ones are not imported."""

from collections.abc import Callable, Mapping
from email.utils import parseaddr

from lattice.api.notifications import NotificationPolicy
from lattice.config.load import ConfigError
from lattice.config.schema import ServerConfig
from lattice.config.secrets import resolve
from lattice.config.sections.outside import MailSection, WebhookSection
from lattice.daemons.outside.access import trust_of
from lattice.daemons.outside.vaults import vault_of
from lattice.ports.clock import Clock
from lattice.ports.site.notifications import Sender
from lattice.wire.work.notifications import MAIL, WEBHOOK


class Senders:
    """Senders by channel, and their description for the API. Raises ConfigError and SecretError."""

    def __init__(self, config: ServerConfig, clock: Clock) -> None:
        section, vault = config.notifications, vault_of(config)
        senders: dict[str, Sender] = {}
        if section.mail.host:
            senders[MAIL] = _mail(section.mail, config.mode, vault)
        secret = b""
        if section.webhook.enabled:
            if not section.webhook.secret:
                raise ConfigError(
                    "notifications.webhook.secret: set the key that signs calls, such as file:///etc/lattice/webhook-secret"
                )
            secret = resolve(section.webhook.secret, key="notifications.webhook.secret", mode=config.mode, vault=vault)
            senders[WEBHOOK] = _webhook(section.webhook, secret, clock)
        self.senders: Mapping[str, Sender] = senders
        self.policy = NotificationPolicy(
            channels=frozenset(senders),
            default_domain=section.mail.default_domain,
            allowed_domains=tuple(domain.lower() for domain in section.mail.allowed_domains),
            allow_http=section.webhook.allow_http,
            webhook_secret=secret,
        )

    def places(self, user: str, wanted: tuple[str, ...]) -> tuple[str, ...]:
        """Where the user can be written to: where they want, else at the address that the site derives."""
        own = self.policy.own_address(user)
        found = wanted or ((own,) if own else ())
        return tuple(place for place in found if not self.policy.problem_with(place))


def _mail(section: MailSection, mode: str, vault: Callable[[str], bytes] | None) -> Sender:
    from lattice.integrations.mail.sender import MailSender

    if "@" not in parseaddr(section.sender)[1]:
        raise ConfigError("notifications.mail.sender: set the sender address of mails")
    password = ""
    if section.user:
        password = resolve(section.password, key="notifications.mail.password", mode=mode, vault=vault).decode()
    return MailSender(
        section.host,
        section.port,
        sender=section.sender,
        security=section.security,
        user=section.user,
        password=password,
        trust=trust_of(section.ca_file, key="notifications.mail.ca_file"),
    )


def _webhook(section: WebhookSection, secret: bytes, clock: Clock) -> Sender:
    from lattice.integrations.webhook.sender import WebhookSender

    return WebhookSender(
        secret,
        clock,
        allow_http=section.allow_http,
        allow_private=section.allow_private,
        trust=trust_of(section.ca_file, key="notifications.webhook.ca_file"),
    )
