"""What the site allows of notifications, as the API tells it to people before anything is sent."""

from dataclasses import dataclass, field

from lattice.wire.work.notifications import MAIL, WEBHOOK, address_of, channel_of, is_mail_address, webhook_key

OFF = {
    MAIL: "this site has configured no mail server: mails are not sent",
    WEBHOOK: "this site has not enabled webhooks: none are called",
}
ALL_OFF = "this site has configured no way to send notifications: they are off"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationPolicy:
    """Nothing is sent by a channel that is not in `channels`."""

    channels: frozenset[str] = frozenset()
    default_domain: str = ""
    allowed_domains: tuple[str, ...] = ()
    allow_http: bool = False
    webhook_secret: bytes = field(default=b"", repr=False)

    def problem_with(self, destination: str) -> str:
        """Why nothing will get there; empty when it may."""
        channel, address = channel_of(destination), address_of(destination)
        if channel not in self.channels:
            return OFF.get(channel, ALL_OFF)
        if channel == MAIL and self.allowed_domains:
            domain = address.rpartition("@")[2].lower()
            if domain not in self.allowed_domains:
                return f"this site sends no mail to {domain}, only to {', '.join(self.allowed_domains)}"
        if channel == WEBHOOK and not self.allow_http and not address.lower().startswith("https:"):
            return "this site calls webhooks by https:// only"
        return ""

    def own_address(self, user: str) -> str:
        """Where to write to a user who names no address; empty when the site does not know."""
        if MAIL not in self.channels or not self.default_domain:
            return ""
        address = f"{user}@{self.default_domain}"
        return f"{MAIL}:{address}" if is_mail_address(address) else ""

    def key_of(self, user: str) -> str:
        """With what the user's webhooks are signed; empty where none are called."""
        return webhook_key(self.webhook_secret, user) if WEBHOOK in self.channels else ""
