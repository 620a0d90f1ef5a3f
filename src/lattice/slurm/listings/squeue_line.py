"""The command line of squeue and its variables: which jobs to show, and how."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lattice.slurm.faults import Fault, error
from lattice.slurm.listings import squeue
from lattice.slurm.listings.listing import ALIKE, ListingLine, flag, items_outside_brackets, maybe, read_line, value
from lattice.slurm.submit.getopt import Grammar
from lattice.slurm.text.formats import Field, Parts, parse_known, parse_percent
from lattice.slurm.text.hostlists import BadHostlist, expand
from lattice.slurm.text.numbers import whole
from lattice.slurm.text.states import VALID_STATES, State, find_state

GRAMMAR = Grammar(
    "squeue",
    (
        *ALIKE,
        value("account", "A", "accounts"),
        flag("all", "a"),
        flag("array-unique"),
        flag("federation"),
        flag("hide"),
        value("iterate", "i"),
        maybe("jobs", "j", "job"),
        flag("json"),
        flag("local"),
        flag("long", "l"),
        value("licenses", "L"),
        value("clusters", "M", "cluster"),
        flag("me"),
        value("name", "n", "names"),
        flag("noheader", "h"),
        flag("noconvert"),
        value("format", "o"),
        value("Format", "O"),
        value("partition", "p", "partitions"),
        value("qos", "q"),
        value("reservation", "R"),
        flag("array", "r"),
        flag("sibling"),
        maybe("steps", "s", "step"),
        value("sort", "S"),
        flag("start"),
        value("states", "t", "state"),
        value("user", "u", "users"),
        value("nodelist", "w", "nodes"),
        flag("yaml"),
    ),
)
_ACTIVE = frozenset(state for state in State if state.is_active)
# Columns that only need the head of a row.
_BRIEF = frozenset("iAFKtTrRBNlLMVePjaquD")
# Columns that need the scheduler or the steps.
_SLOW = frozenset({"p", "Q", "S", "Y", "stdout", "stderr", "derived-ec"})

Names = frozenset[str] | None  # None = any


@dataclass(frozen=True, kw_only=True)
class Query:
    """The request of one call. `jobs` and `steps` are ids as typed; none = all."""

    line: ListingLine
    jobs: tuple[str, ...]
    steps: tuple[str, ...]
    states: frozenset[State]
    users: Names
    partitions: Names
    names: Names
    accounts: Names
    qos: Names
    reservations: Names
    nodes: frozenset[str]
    sort: str
    parts: Parts
    complaints: tuple[str, ...]
    is_spread: bool
    time_form: str

    @property
    def shows_steps(self) -> bool:
        return self.line.has("steps")

    @property
    def document(self) -> str:
        """`json`, `yaml` or nothing."""
        return self.line.which("json", "yaml")

    @property
    def is_brief(self) -> bool:
        """Whether the head of each row is enough."""
        keys = {part.key for part in self.parts if isinstance(part, Field)}
        sorts = {field.lstrip("+-") for field in self.sort.split(",")}
        return keys <= _BRIEF and sorts <= _BRIEF | {"p", "Q", ""}

    @property
    def is_full(self) -> bool:
        """Whether it needs more than the records themselves."""
        return (
            bool(self.document)
            or self.line.has("steps", "start")
            or any(isinstance(part, Field) and part.key in _SLOW for part in self.parts)
        )


def read_query(argv: Sequence[str], environment: Mapping[str, str]) -> Query:
    """Raises Fault for a line that squeue refuses."""
    line = read_line(GRAMMAR, argv)
    jobs, steps = _taken(line, "jobs"), _taken(line, "steps")
    if line.words:
        raise Fault(f"squeue: error: Unrecognized option: {line.words[0]}", "Usage: squeue [OPTIONS]")
    if line.has("iterate") and whole(line.last("iterate")) is None:
        raise error("squeue", f"--iterate={line.last('iterate')}")
    parts, complaints = _parts(line, environment)

    def names(option: str, variable: str = "") -> Names:
        return frozenset(line.items(option, environment.get(variable, ""))) or None

    return Query(
        line=line,
        jobs=jobs,
        steps=steps,
        states=_states(line, environment),
        users=names("user", "SQUEUE_USERS"),
        partitions=names("partition", "SQUEUE_PARTITION"),
        names=names("name", "SQUEUE_NAMES"),
        accounts=names("account", "SQUEUE_ACCOUNT"),
        qos=names("qos", "SQUEUE_QOS"),
        reservations=names("reservation"),
        nodes=_nodes(line),
        sort=line.last("sort") or environment.get("SQUEUE_SORT", "") or ("S" if line.has("start") else "P,t,-p"),
        parts=parts,
        complaints=complaints,
        is_spread=line.has("array", "array-unique") or "SQUEUE_ARRAY" in environment,
        time_form=environment.get("SLURM_TIME_FORMAT", ""),
    )


def _taken(line: ListingLine, name: str) -> tuple[str, ...]:
    """A list whose value may follow as a separate word."""
    if not line.has(name):
        return ()
    if not line.last(name) and line.words:
        return tuple(items_outside_brackets(line.words.pop(0)))
    texts = [each.value for each in line.given if each.option.name == name]
    return tuple(item for text in texts for item in items_outside_brackets(text))


def _states(line: ListingLine, environment: Mapping[str, str]) -> frozenset[State]:
    words = line.items("states", environment.get("SQUEUE_STATES", ""))
    if any(word.lower() == "all" for word in words):
        return frozenset(State)
    if not words:
        return frozenset({State.PENDING}) if line.has("start") else _ACTIVE
    states = set()
    for word in words:
        state = find_state(word)
        if state is not None:
            states.add(state)
        elif word.upper() not in VALID_STATES.split(","):
            raise Fault(
                f"squeue: error: Invalid job state specified: {word}",
                f"squeue: error: Valid job states include: {VALID_STATES}",
                "",
            )
    return frozenset(states)


def _nodes(line: ListingLine) -> frozenset[str]:
    text = line.last("nodelist")
    try:
        return frozenset(expand(text))
    except BadHostlist:
        raise error("squeue", f"Invalid node name {text}") from None


def _parts(line: ListingLine, environment: Mapping[str, str]) -> tuple[Parts, tuple[str, ...]]:
    """The columns, and errors in them; a format on the line takes precedence over -l and --start, and these over the variables."""
    letters = squeue.STEP_LETTERS if line.has("steps") else squeue.LETTERS
    which = line.which("format", "Format")
    text = line.last(which) if which else ""
    if not which and line.has("start"):
        text = squeue.START
    elif not which and line.has("long"):
        text = squeue.LONG
    elif not which and "SQUEUE_FORMAT2" in environment:
        which, text = "Format", environment["SQUEUE_FORMAT2"]
    elif not which:
        usual = squeue.STEP_DEFAULT if line.has("steps") else squeue.DEFAULT
        text = environment.get("SQUEUE_FORMAT", "") or usual
    if which != "Format":
        return parse_percent(squeue.spelled_out(text), letters), ()
    parts, unknown = parse_known(text, squeue.NAMES)
    return parts, tuple(f"squeue: error: Invalid job format specification: {name}" for name in unknown)
