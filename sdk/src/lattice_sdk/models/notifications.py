"""Notifications about the user's allocations, and their destinations."""

from msgspec import Struct


class NotifyRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Part of a submission. `on`: begin, end, fail, requeue, time-limit-near ..., all or none; `to`: mail:ADDRESS, webhook:URL.

    Without `to` where one's default says; with `each_task` of each task of a group instead of the group as a whole.
    """

    on: list[str] = []
    to: list[str] = []
    each_task: bool = False


class NotifySettings(Struct, frozen=True, kw_only=True):
    """Your default; `channels` are those of the site, `waiting` is how many of yours are not sent yet."""

    user: str = ""
    on: list[str] = []
    to: list[str] = []
    each_task: bool = False
    channels: list[str] = []
    own_address: str = ""
    waiting: int = 0
    warnings: list[str] = []


class WebhookKey(Struct, frozen=True, kw_only=True):
    """The HMAC-SHA256 key that signs your webhooks."""

    key: str
