"""How nodes are: what they say of their health, and to whom they are lent."""

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


class Loan(Struct, frozen=True, kw_only=True):
    """A node that works for a vCluster which does not list it; `vcluster` is the other one."""

    node: str
    vcluster: str = ""
    since: str | None = None


class Lending(Struct, frozen=True, kw_only=True):
    """What a vCluster lends of its own nodes, and borrows of others. 0 = no limit."""

    lends: str = "never"
    lend_to: list[str] = []
    max_lent: int = 0
    lend_after_s: int = 0
    borrows: bool = False
    max_borrowed: int = 0
    borrow_priority: int = 0
    max_borrow_duration_s: int = 0
    return_grace_s: int = 60
    base: int = 0
    lent: list[Loan] = []
    borrowed: list[Loan] = []
