"""What is left of a tenant's budget by the word of an accounting system outside. See docs/architecture/scheduler.md."""

from msgspec import Struct


class Remaining(Struct, frozen=True, kw_only=True, gc=False):
    """Hours that were granted and what is left of them; None = no such budget. What is left may be negative."""

    gpu_hours_budget: float | None = None
    gpu_hours_remaining: float = 0.0
    node_hours_budget: float | None = None
    node_hours_remaining: float = 0.0
