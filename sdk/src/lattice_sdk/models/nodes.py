"""Information about nodes besides their record: the outcome of an order for many of them, and their histories."""

from msgspec import Struct

from lattice_sdk.models.records import Refusal


class NodeOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one node of a set: the state it is in now, or why the order was refused."""

    id: str
    ok: bool
    state: str = ""
    error: Refusal | None = None
    note: str = ""  # what is left to do by hand


class NodeOutcomes(Struct, frozen=True, kw_only=True):
    items: list[NodeOutcome] = []


class NodeEvent(Struct, frozen=True, kw_only=True):
    """`trigger` led from `previous` to `state`; `by` whom and why (`reason`), and the allocations that lost the node by it."""

    at: str | None = None
    trigger: str = ""
    previous: str = ""
    state: str = ""
    by: str = ""
    reason: str = ""
    allocations: list[str] = []


class NodeAdmission(Struct, frozen=True, kw_only=True):
    """What was decided of the name of a node; `state` is empty while no node of that name has registered."""

    node: str
    standing: str = ""
    state: str = ""
    by: str = ""
    since: str = ""
    valid_from: str = ""


class RunDevices(Struct, frozen=True, kw_only=True):
    """The CPUs and GPUs of a run on a node; empty = it is bound to none, or has none."""

    id: str
    cpus: list[int] = []
    gpus: list[int] = []


class MissingFeature(Struct, frozen=True, kw_only=True):
    """What a node could offer and does not."""

    name: str
    reason: str = ""


class NodeUsage(Struct, frozen=True, kw_only=True):
    """What the runs of a node have of it, and what the node lacks."""

    node: str
    runs: list[RunDevices] = []
    missing: list[MissingFeature] = []
