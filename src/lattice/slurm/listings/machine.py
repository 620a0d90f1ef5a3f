"""Nodes, partitions and reservations as the listings see them: plain values, independent of their source."""

from msgspec import Struct

from lattice.slurm.text.hostlists import fold

# (short, long) by the base state in `scontrol`, without its flags.
_WORDS = {
    "IDLE": ("idle", "idle"),
    "ALLOCATED": ("alloc", "allocated"),
    "MIXED": ("mix", "mixed"),
    "DOWN": ("down", "down"),
    "UNKNOWN": ("unk", "unknown"),
}
# sinfo lists states in this order.
_ORDER = ("MIXED", "ALLOCATED", "IDLE", "DOWN", "UNKNOWN")
STATE_WORDS = (
    "unknown,down,idle,allocated,?,mixed,future,drain,drained,draining,no_respond,reserved,perfctrs,cloud,completing,powering_down,"
    "powered_down,power_down,powering_up,fail,maint,reboot,reboot^,unknown"
)
_ALSO_KNOWN = frozenset(
    {"alloc", "mix", "drng", "unk", "resv", "comp", "failing", "error", "planned", "blocked", "all"}
)


class NodeRow(Struct, frozen=True, kw_only=True):
    """`base` is IDLE, ALLOCATED, MIXED, DOWN or UNKNOWN; memory in megabytes."""

    name: str
    base: str
    is_drained: bool = False  # or draining
    is_silent: bool = False
    is_reserved: bool = False
    is_maintained: bool = False
    cpus: int
    cpus_held: int = 0
    memory_mb: int
    memory_held_mb: int = 0
    memory_free_mb: int | None = None
    load: float | None = None
    features: str = ""
    gpus: int = 0
    gpus_held: int = 0
    gpu_type: str = ""
    partitions: tuple[str, ...] = ()
    address: str = ""
    reason: str = ""
    reason_by: str = ""
    reason_uid: int = 0
    reason_at: float | None = None
    started_at: float | None = None
    version: str = ""

    @property
    def is_busy(self) -> bool:
        return self.base in ("ALLOCATED", "MIXED")

    @property
    def is_out(self) -> bool:
        return self.base in ("DOWN", "UNKNOWN") or self.is_drained

    @property
    def gres(self) -> str:
        return "" if not self.gpus else f"gpu:{self.gpu_type}:{self.gpus}" if self.gpu_type else f"gpu:{self.gpus}"

    @property
    def rank(self) -> tuple[int, bool]:
        return _ORDER.index(self.base), not self.is_drained

    @property
    def state(self) -> str:
        """As in `scontrol show node`."""
        flags = (
            (self.is_drained, "DRAIN"),
            (self.is_maintained, "MAINTENANCE"),
            (self.is_reserved, "RESERVED"),
            (self.is_silent, "NOT_RESPONDING"),
        )
        return "+".join((self.base, *(word for is_set, word in flags if is_set)))

    def state_word(self, *, short: bool) -> str:
        """As in `sinfo`; an asterisk marks a node that does not answer."""
        if self.is_drained and self.base != "DOWN":
            words = ("drng", "draining") if self.is_busy else ("drain", "drained")
        elif self.is_maintained and self.base == "IDLE":
            words = ("maint", "maint")
        elif self.is_reserved and self.base == "IDLE":
            words = ("resv", "reserved")
        else:
            words = _WORDS[self.base]
        return words[0 if short else 1] + ("*" if self.is_silent else "")

    def is_in(self, word: str) -> bool:
        """Whether `sinfo -t WORD` shows it."""
        wanted = word.lower()
        if wanted == "drain":
            return self.is_drained
        if wanted == "no_respond":
            return self.is_silent
        return wanted == "all" or wanted in (
            self.state_word(short=True).rstrip("*"),
            self.state_word(short=False).rstrip("*"),
        )


def is_state_word(word: str) -> bool:
    return word.lower() in STATE_WORDS.split(",") or word.lower() in _ALSO_KNOWN


class PartitionRow(Struct, frozen=True, kw_only=True):
    """0 = no limit."""

    name: str
    nodes: tuple[NodeRow, ...] = ()
    is_default: bool = False
    is_up: bool = True
    is_shared: bool = False
    max_time_s: int = 0
    default_time_s: int = 0
    max_nodes: int = 0
    accounts: tuple[str, ...] = ()  # none = all
    preempt_mode: str = "OFF"

    @property
    def shown_name(self) -> str:
        return f"{self.name}*" if self.is_default else self.name

    @property
    def node_list(self) -> str:
        return fold(node.name for node in self.nodes)


class ReservationRow(Struct, frozen=True, kw_only=True):
    name: str
    start_at: float
    end_at: float
    is_active: bool
    nodes: tuple[str, ...] = ()
    cpus: int = 0
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    is_maintenance: bool = False
    flags: tuple[str, ...] = ()
