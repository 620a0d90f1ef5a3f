"""How work ended, in one sentence: the same words in every listing, in mail, and in the output of the work itself.

The shim writes it too, so this module needs nothing but the language. See docs/architecture/core.md.
"""

_NAMES = {
    1: "SIGHUP",
    2: "SIGINT",
    3: "SIGQUIT",
    4: "SIGILL",
    5: "SIGTRAP",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    10: "SIGUSR1",
    11: "SIGSEGV",
    12: "SIGUSR2",
    13: "SIGPIPE",
    14: "SIGALRM",
    15: "SIGTERM",
    24: "SIGXCPU",
    25: "SIGXFSZ",
    31: "SIGSYS",
}
_OUT_OF_MEMORY = "out of memory"
# What a node says of a run that it stopped by order; the state knows who ordered it.
_STOPPED = "stopped"
PREEMPTED = "preempted"
_BY = "cancelled by "
_TAKEN = f"{PREEMPTED}: "
_PROBE = "probe: "
_TOO_LATE = "it could no longer end before its deadline"
_STOPS = {
    "requeued": "was stopped to run again",
    "node_lost": "was stopped: one of its nodes was lost",
    "part_failed": "was stopped: it failed on another of its nodes",
    "drained": "was stopped: its node is drained urgently",
    "preempted": "was preempted: other work needs its nodes; it will run again",
    "rolled_back": "was stopped: one of its nodes did not start it in time",
    "stale": "was stopped: the servers no longer know this run",
    "superseded": "was stopped: a newer run takes its place",
    "fenced": "was stopped by its node, which lost its servers",
    "shutdown": "was stopped: its node shuts down",
}
# What an order to stop means for the work, where that is the end of it.
_ENDS = {"cancelled": "cancelled", "walltime": "walltime", "deadline": "deadline"}


def sentence(
    name: str,
    cause: str,
    *,
    exit_code: int | None = None,
    signal: int = 0,
    walltime_s: float = 0,
    message: str = "",
    has_run: bool = True,
) -> str:
    """How the work called `name` ended; empty when it ended well. `cause` is a value of `Cause`, or of a node's `EndCause`."""
    if cause == "exit" and not exit_code:
        return ""
    parts = [part for part in message.split("; ") if part and not part.startswith(_STOPPED)]
    said = "; ".join(parts)
    return f"{name} {_predicate(cause, exit_code, signal, walltime_s, said, has_run=has_run)}"


def stopped_sentence(name: str, why: str, *, walltime_s: float = 0) -> str:
    """How a run ended that its node stopped by order, as far as the node knows."""
    if why.startswith(_BY):
        return sentence(name, "cancelled", message=why)
    if why.startswith(_TAKEN):
        return f"{name} was {why}"
    if why.startswith(_PROBE):
        return sentence(name, "probe", message=why.removeprefix(_PROBE))
    if why in _ENDS:
        return sentence(name, _ENDS[why], walltime_s=walltime_s)
    return f"{name} {_STOPS.get(why) or 'was stopped'}"


def probe_failed(how: str) -> str:
    """Why a node stops an instance that does not answer as it should."""
    return f"{_PROBE}{how}"


def preempted_for_good(taken_for: str) -> str:
    """Why a node stops work that does not run again."""
    return f"{_TAKEN}{taken_for or 'other work needs its nodes'}"


def cancelled_by(user: str, said: str = "") -> str:
    """The message of work that another user cancelled, with what its node said of it; without a user only that."""
    if not user or not said:
        return f"{_BY}{user}" if user else said
    return f"{_BY}{user}" if said.startswith(_STOPPED) else f"{_BY}{user}; {said}"


def group_sentence(name: str, failed: int, size: int, *, worst: str) -> str:
    """How a task group ended of which tasks failed; `worst` is what `sentence` says of the one that failed worst."""
    how = worst.removeprefix(f"{name} ")
    return f"{name} failed: {failed} of {size} tasks failed, the worst one {how}"


def clock(seconds: float) -> str:
    """`HH:MM:SS`, with days in front when there are any."""
    days, rest = divmod(max(0, int(seconds)), 86400)
    hours, rest = divmod(rest, 3600)
    text = f"{hours:02d}:{rest // 60:02d}:{rest % 60:02d}"
    return f"{days}-{text}" if days else text


def signal_text(number: int) -> str:
    return f"signal {number} ({_NAMES[number]})" if number in _NAMES else f"signal {number}"


def _predicate(cause: str, exit_code: int | None, signal: int, walltime_s: float, said: str, *, has_run: bool) -> str:
    more = f"; {said}" if said else ""
    match cause:
        case "exit":
            return f"failed with exit code {exit_code}{more}"
        case "signal":
            return f"was killed by {signal_text(signal)}{more}"
        case "oom":
            return f"was killed: {said if said.startswith(_OUT_OF_MEMORY) else _OUT_OF_MEMORY + more}"
        case "walltime":
            limit = f" of {clock(walltime_s)}" if walltime_s else ""
            return f"was killed at its walltime limit{limit}{more}"
        case "deadline":
            return f"was stopped at its deadline{more}" if has_run else f"was given up: {said or _TOO_LATE}"
        case "cancelled":
            return f"was {said}" if said.startswith(_BY) else f"was cancelled{more}"
        case "dependency":
            # Records of every release say "it cancelled"; they are part of the digest, so the sentence corrects them.
            return f"was never started{_because(said.replace(', it cancelled', ', it was cancelled'))}"
        case "launch":
            return f"could not be started{_because(said)}"
        case "preempted":
            return f"was {said or PREEMPTED}"
        case "probe":
            return f"was ended by its liveness probe{_because(said)}"
        case "node":
            return f"failed with its node{_because(said)}"
        case _:
            return f"ended: {cause}{more}"


def _because(said: str) -> str:
    return f": {said}" if said else ""
