"""Notifications: which events users subscribe to, and the notifications not sent yet.

See docs/architecture/core.md.
"""

from enum import StrEnum

from msgspec import Struct

MAX_DESTINATIONS = 4
MAX_WAITING_PER_USER = 1_000


class Occasion(StrEnum):
    """The kinds of events. An end produces only one: FAIL for those subscribed to failures, else END."""

    BEGIN = "begin"
    END = "end"
    FAIL = "fail"  # ended as Failed, or given up because of a dependency
    REQUEUE = "requeue"
    TIME_LIMIT_50 = "time_limit_50"
    TIME_LIMIT_80 = "time_limit_80"
    TIME_LIMIT_90 = "time_limit_90"
    TIME_LIMIT = "time_limit"  # ended because its walltime was over
    PREEMPT = "preempt"  # taken off its nodes for other work
    ALERT = "alert"  # a node measured what points to trouble: an idle GPU, lost packets
    BUDGET = "budget"  # of a tenant, for its admins, without a subscription


# Percentage of the walltime that has passed.
NEAR_LIMIT: dict[int, Occasion] = {
    50: Occasion.TIME_LIMIT_50,
    80: Occasion.TIME_LIMIT_80,
    90: Occasion.TIME_LIMIT_90,
}


class Notify(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Who hears of what. Nothing in `on` = of nothing; of a task group as a whole unless `each_task`.

    `to` holds `mail:ADDRESS` and `webhook:URL`.
    """

    on: tuple[Occasion, ...] = ()
    to: tuple[str, ...] = ()
    each_task: bool = False


class NotifyDefault(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What a user wants to hear of allocations that do not say it themselves."""

    user: str
    notify: Notify


class BudgetNote(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """At which percentage of a budget the admins of a tenant were notified last."""

    tenant: str
    percent: int = 0


class Reader(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Who receives a notification, and where."""

    user: str
    to: str


class Notification(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One message to one destination, complete; it stays until it is sent or given up."""

    number: int
    at: int
    occasion: Occasion
    to: str
    user: str
    tenant: str
    vcluster: str
    allocation: int
    name: str
    state: str
    project: str = ""
    group: int = 0
    task_index: int = -1
    run: int = 0
    cause: str = ""
    exit_code: int | None = None
    signal: int = 0
    message: str = ""
    nodes: tuple[str, ...] = ()  # the first few of `node_count`
    node_count: int = 0
    submitted_at: int = 0
    started_at: int = 0
    ended_at: int = 0
    walltime_s: int = 0
    tasks: tuple[int, int, int] | None = None  # of a whole group: completed, failed, cancelled

    @property
    def id(self) -> str:
        """The same for every try to send it, and for nothing else."""
        return f"n{self.number}-{self.at}"
