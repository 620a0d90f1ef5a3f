"""How a notification leaves the cluster.

Errors of this boundary::

    DeliveryFailed           not delivered, or delivery unknown; worth a retry
      Undeliverable          it never will: refused for good, or not allowed
"""

from typing import Protocol

from lattice.core.model.work.notifications import Notification


class DeliveryFailed(Exception):
    """Not delivered this time; the text says why and holds no secrets."""


class Undeliverable(DeliveryFailed):
    """Another try would end the same way."""


class Sender(Protocol):
    """One way out: mail, webhook."""

    async def send(self, notification: Notification) -> None:
        """Returns once the other side has taken it. Repeated, it is sent again under the same id (`notification.id`).

        Raises DeliveryFailed or Undeliverable.
        """
        ...
