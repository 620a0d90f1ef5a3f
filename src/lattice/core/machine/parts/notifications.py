"""The part of the state that holds notifications: those that wait to be sent, what users want by default,
and which budgets were the last reason.

Written by `evolve` and the codec alone, like the rest of the state. `per_user` is derived. See docs/architecture/core.md.
"""

from lattice.core.machine.digest import Digest
from lattice.core.model.work.notifications import BudgetNote, Notification, NotifyDefault


class NotificationRegistry:
    def __init__(self, digest: Digest) -> None:
        self._digest = digest
        self.waiting: dict[int, Notification] = {}  # by number, in the order in which they came up
        self.defaults: dict[str, NotifyDefault] = {}
        self.budgets: dict[str, BudgetNote] = {}  # by tenant
        self.next_number = 1
        self.per_user: dict[str, int] = {}

    def put(self, notification: Notification) -> None:
        self._digest.add(b"notification", notification)
        self.waiting[notification.number] = notification
        self.next_number = max(self.next_number, notification.number + 1)
        self.per_user[notification.user] = self.per_user.get(notification.user, 0) + 1

    def drop(self, number: int) -> None:
        old = self.waiting.pop(number)
        self._digest.remove(b"notification", old)
        left = self.per_user[old.user] - 1
        if left:
            self.per_user[old.user] = left
        else:
            del self.per_user[old.user]

    def put_default(self, default: NotifyDefault) -> None:
        """An empty one is as good as none and leaves no trace."""
        old = self.defaults.pop(default.user, None)
        if old is not None:
            self._digest.remove(b"notify default", old)
        if default.notify.on or default.notify.to:
            self._digest.add(b"notify default", default)
            self.defaults[default.user] = default

    def noted_percent(self, tenant: str) -> int:
        note = self.budgets.get(tenant)
        return note.percent if note is not None else 0

    def put_budget(self, note: BudgetNote) -> None:
        """With 0 % it is as good as none and leaves no trace."""
        old = self.budgets.pop(note.tenant, None)
        if old is not None:
            self._digest.remove(b"budget note", old)
        if note.percent:
            self._digest.add(b"budget note", note)
            self.budgets[note.tenant] = note
