"""What one is told of one's allocations, and where."""

from msgspec import Struct


class NotifyRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Part of a submission. `on`: begin, end, fail, requeue, time-limit-near ..., all or none; `to`: mail:ADDRESS, webhook:URL.

    Without `to` where one's default says; with `each_task` of each task of a group instead of the group as a whole.
    """

    on: list[str] = []
    to: list[str] = []
    each_task: bool = False


class NotifySettings(Struct, frozen=True, kw_only=True):
    """One's default; `channels` are the ways by which the site sends, `waiting` how many of one's own are not sent yet."""

    user: str = ""
    on: list[str] = []
    to: list[str] = []
    each_task: bool = False
    channels: list[str] = []
    own_address: str = ""
    waiting: int = 0
    warnings: list[str] = []


class WebhookKey(Struct, frozen=True, kw_only=True):
    """The key of HMAC-SHA256 with which one's own webhooks are signed."""

    key: str
