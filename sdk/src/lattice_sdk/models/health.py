"""What a node's own checks say."""

from msgspec import Struct


class NodeVitals(Struct, frozen=True, kw_only=True):
    """What the last heartbeat said of the node's health; no temperature where no sensor shows one."""

    gpus: int = 0
    temperature_c: int | float | None = None
    memory_errors: int = 0
    failing_checks: int = 0


class NodeCheck(Struct, frozen=True, kw_only=True):
    """`verdict` is pending, passed, warned or failed; `consequence` what a failure does: warn, degrade or drain."""

    name: str
    verdict: str = ""
    text: str = ""
    consequence: str = ""
    required_for_ready: bool = False
    failures: int = 0
    since_s: int | float = 0.0
    duration_s: int | float = 0.0


class NodeChecks(Struct, frozen=True, kw_only=True):
    """All checks of a node; `ok` = none of them fails."""

    node: str
    state: str = ""
    ok: bool = True
    checks: list[NodeCheck] = []
