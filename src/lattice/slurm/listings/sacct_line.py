"""The command line of sacct: which jobs, which period, and which columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lattice.slurm.faults import Fault, error
from lattice.slurm.listings import sacct
from lattice.slurm.listings.listing import ALIKE, ListingLine, flag, items_outside_brackets, read_line, value
from lattice.slurm.submit.getopt import Grammar
from lattice.slurm.text.formats import Field, UnknownField, parse_sized
from lattice.slurm.text.states import State, find_state
from lattice.slurm.text.times import parse_moment

GRAMMAR = Grammar(
    "sacct",
    (
        *(option for option in ALIKE if option.name != "help"),
        flag("help", "h"),
        value("accounts", "A", "account"),
        flag("allclusters", "L"),
        flag("allocations", "X"),
        flag("allusers", "a"),
        value("associations", "x"),
        flag("array"),
        flag("batch-script", "B"),
        flag("brief", "b"),
        flag("completion", "c"),
        value("constraints", "C"),
        value("delimiter"),
        flag("duplicates", "D"),
        value("endtime", "E"),
        flag("env-vars"),
        flag("federation"),
        value("file", "f"),
        value("flags", "F"),
        value("format", "o"),
        value("group", "g", "gid"),
        flag("helpformat", "e"),
        value("jobs", "j", "job"),
        flag("json"),
        flag("local"),
        flag("long", "l"),
        value("clusters", "M", "cluster"),
        value("name"),
        value("ncpus", "I"),
        value("nnodes", "i"),
        flag("noconvert"),
        value("nodelist", "N"),
        flag("noheader", "n"),
        flag("parsable", "p"),
        flag("parsable2", "P"),
        value("partition", "r"),
        value("qos", "q"),
        value("reason", "R"),
        value("starttime", "S"),
        value("state", "s"),
        value("timelimit-max", "K"),
        value("timelimit-min", "k"),
        flag("truncate", "T"),
        value("units"),
        value("user", "u", "uid"),
        value("wckeys", "W"),
        value("whole-hetjob"),
        flag("yaml"),
        flag("use-local-uid"),
    ),
)
Names = frozenset[str] | None  # None = any


@dataclass(frozen=True, kw_only=True)
class Query:
    """`since` and `until` are seconds since 1970; selects jobs that existed at some time between them."""

    line: ListingLine
    fields: tuple[Field, ...]
    jobs: tuple[str, ...]
    states: frozenset[State] | None
    users: Names
    since: float
    until: float
    time_form: str

    def names(self, option: str) -> Names:
        return frozenset(self.line.items(option)) or None

    @property
    def document(self) -> str:
        return self.line.which("json", "yaml")


def read_query(argv: Sequence[str], environment: Mapping[str, str], now: float) -> Query:
    """Raises Fault for a line that sacct refuses."""
    line = read_line(GRAMMAR, argv)
    texts = [each.value for each in line.given if each.option.name == "jobs"]
    jobs = tuple(item for text in texts for item in items_outside_brackets(text))
    since, until = _window(line, now, with_jobs=bool(jobs))
    return Query(
        line=line,
        fields=_fields(line, environment),
        jobs=jobs,
        states=_states(line),
        users=frozenset(line.items("user")) or None,
        since=since,
        until=until,
        time_form=environment.get("SLURM_TIME_FORMAT", ""),
    )


def _fields(line: ListingLine, environment: Mapping[str, str]) -> tuple[Field, ...]:
    text = ",".join(each.value for each in line.given if each.option.name == "format")
    if not text:
        usual = sacct.LONG if line.has("long") else sacct.BRIEF if line.has("brief") else sacct.DEFAULT
        text = environment.get("SACCT_FORMAT", "") or usual
    try:
        return tuple(parse_sized(text, sacct.COLUMNS))
    except UnknownField as unknown:
        name = str(unknown).partition("%")[0]
        raise error("sacct", f'Invalid field requested: "{name}"') from None


def _states(line: ListingLine) -> frozenset[State] | None:
    words = line.items("state")
    if not words:
        return None
    found = []
    for word in words:
        state = find_state(word)
        if state is None:
            raise error("sacct", f"Unknown state specified '{word}'")
        found.append(state)
    return frozenset(found)


def _window(line: ListingLine, now: float, *, with_jobs: bool) -> tuple[float, float]:
    """Starts at midnight, unless jobs are named; with states alone it means the current time."""
    until = _moment(line, "endtime", now)
    start = _moment(line, "starttime", now)
    if start is None and with_jobs:
        start = 0.0
    elif start is None and line.has("state"):
        start = now if until is None else until
    elif start is None:
        start = parse_moment("today", now) or 0.0
    if until is not None and until < start:
        raise Fault("sacct: error: Start time requested is after end time.", code=1)
    return start, now if until is None else until


def _moment(line: ListingLine, option: str, now: float) -> float | None:
    text = line.last(option)
    if not text:
        return None
    moment = parse_moment(text, now)
    if moment is None:
        raise error("sacct", f"Invalid time specification (pos=0): {text}")
    return moment
