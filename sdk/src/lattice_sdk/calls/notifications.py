"""Default notifications of the user."""

from collections.abc import Sequence

from lattice_sdk.models.notifications import NotifySettings, WebhookKey
from lattice_sdk.operation import Steps, operation, read, write


class NotificationCalls:
    @operation
    def notify_settings(self) -> Steps[NotifySettings]:
        """Your default notifications, and the channels of the site."""
        return read("/notifications", NotifySettings)

    @operation
    def set_notify_default(
        self, on: Sequence[str], to: Sequence[str] = (), *, each_task: bool = False, request_id: str = ""
    ) -> Steps[NotifySettings]:
        """Set the notifications of allocations that do not request their own, and their destinations."""
        fields = {"on": list(on), "to": list(to), "each_task": each_task}
        return write("PUT", "/notifications", NotifySettings, fields, request_id)

    @operation
    def clear_notify_default(self, *, request_id: str = "") -> Steps[NotifySettings]:
        """Delete the caller's default notifications."""
        return write("DELETE", "/notifications", NotifySettings, None, request_id)

    @operation
    def webhook_key(self) -> Steps[WebhookKey]:
        """The key that signs your webhooks."""
        return read("/notifications/key", WebhookKey)
