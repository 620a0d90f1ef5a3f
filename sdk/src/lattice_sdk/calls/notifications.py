"""What one is told by default."""

from collections.abc import Sequence

from lattice_sdk.models.notifications import NotifySettings, WebhookKey
from lattice_sdk.operation import Steps, operation, read, write


class NotificationCalls:
    @operation
    def notify_settings(self) -> Steps[NotifySettings]:
        """What one is told by default, and by which ways the site sends."""
        return read("/notifications", NotifySettings)

    @operation
    def set_notify_default(
        self, on: Sequence[str], to: Sequence[str] = (), *, each_task: bool = False, request_id: str = ""
    ) -> Steps[NotifySettings]:
        """What to be told of allocations that do not say it themselves, and where."""
        fields = {"on": list(on), "to": list(to), "each_task": each_task}
        return write("PUT", "/notifications", NotifySettings, fields, request_id)

    @operation
    def clear_notify_default(self, *, request_id: str = "") -> Steps[NotifySettings]:
        """Nothing by default any more."""
        return write("DELETE", "/notifications", NotifySettings, None, request_id)

    @operation
    def webhook_key(self) -> Steps[WebhookKey]:
        """With what one's own webhooks are signed."""
        return read("/notifications/key", WebhookKey)
