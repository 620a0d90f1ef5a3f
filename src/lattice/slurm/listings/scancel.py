"""The command line of scancel: which jobs, by id or by filter, and which signal."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from lattice.slurm.faults import Fault, error
from lattice.slurm.listings.listing import items_outside_brackets
from lattice.slurm.listings.listing import read_line as read_any_order
from lattice.slurm.submit.getopt import Given, Grammar
from lattice.slurm.submit.options import Fate, Option, Takes
from lattice.slurm.text.signals import parse_signal
from lattice.slurm.text.states import State, find_state

Target = Literal["all", "steps", "entrypoint"]
PROGRAM = "scancel"
_NOTHING, _MAYBE = Takes.NOTHING, Takes.MAYBE
OPTIONS = (
    Option("account", "A", note="only jobs of this account"),
    Option("batch", "b", _NOTHING, note="the signal goes to the batch shell"),
    Option("ctld", "", _NOTHING, Fate.SILENT),
    Option("full", "f", _NOTHING, note="the signal goes to the batch shell and all steps"),
    Option("hurry", "H", _NOTHING, Fate.SILENT, "there is no burst buffer"),
    Option("interactive", "i", _NOTHING, Fate.SILENT, "does not prompt"),
    Option("clusters", "M", note="only the local cluster may be named"),
    Option("me", "", _NOTHING, note="only your own jobs"),
    Option("name", "n", note="only jobs with this name", also=("jobname",)),
    Option("partition", "p", note="only jobs of this partition"),
    Option("quiet", "Q", _NOTHING, note="no warnings"),
    Option("qos", "q", note="only jobs of this quality of service"),
    Option("reservation", "R", note="only jobs in this reservation"),
    Option("sibling", "", Takes.VALUE, Fate.SILENT),
    Option("signal", "s", note="the signal to send, by name or number (default: SIGKILL)"),
    Option("state", "t", note="only jobs in this state: PENDING, RUNNING or SUSPENDED"),
    Option("user", "u", note="only jobs of this user"),
    Option("verbose", "v", _NOTHING, note="prints what it does"),
    Option("version", "V", _NOTHING, note="the version"),
    Option("nodelist", "w", note="only jobs on these nodes"),
    Option("wckey", "", note="only jobs with this key"),
    Option("help", "", _NOTHING, note="the options"),
    Option("usage", "", _NOTHING, note="the options, in short"),
)
GRAMMAR = Grammar(PROGRAM, OPTIONS)
_STATES = {State.PENDING, State.RUNNING, State.SUSPENDED}
_ID = re.compile(r"(\d{1,18})(?:\+\d+)?(?:_(\d+|\[[\d,:%-]+\]))?(?:\.(\w{1,18}))?$", re.ASCII)
_FILTERS = ("account", "name", "partition", "qos", "reservation", "user", "nodelist", "wckey", "state")


class JobWord(NamedTuple):
    """`17`, `17_3`, `17_[2-4]`, `17.0`; `tasks` is the part after the underscore."""

    text: str
    number: int
    tasks: str = ""
    step: str = ""


@dataclass(frozen=True, kw_only=True)
class Line:
    """What to cancel. `signal` 0 = cancel the job; `filters` are the given values, by option."""

    jobs: tuple[JobWord, ...] = ()
    filters: dict[str, str]
    state: State | None = None
    mine: bool = False
    signal: int = 0
    target: Target = "steps"
    is_quiet: bool = False
    verbose: int = 0
    asks: str = ""  # help, usage or version
    clusters: str = ""

    @property
    def is_filtered(self) -> bool:
        return bool(self.filters) or self.mine or self.state is not None


def read_line(argv: Sequence[str]) -> Line:
    """Options and ids in any order. Raises Fault with exit code 1, as scancel uses for all errors."""
    read = read_any_order(GRAMMAR, argv)
    given, words = read.given, read.words
    values = {each.option.name: each.value for each in given}
    asks = next((each.option.name for each in given if each.option.name in ("help", "usage", "version")), "")
    line = Line(
        jobs=tuple(_job(word) for text in words for word in _split(text)) if not asks else (),
        filters={name: values[name] for name in _FILTERS if name in values and name != "state"},
        state=_state(values.get("state")),
        mine="me" in values,
        signal=_signal(values.get("signal")),
        target=_target(given),
        is_quiet="quiet" in values,
        verbose=sum(each.option.name == "verbose" for each in given),
        asks=asks,
        clusters=values.get("clusters", ""),
    )
    if not (asks or line.jobs or line.is_filtered):
        raise error(PROGRAM, "No job identification provided")
    return line


def _split(text: str) -> list[str]:
    """Splits at commas outside brackets."""
    return items_outside_brackets(text)


def _job(text: str) -> JobWord:
    found = _ID.match(text)
    if found is None:
        raise error(PROGRAM, f"Invalid job id {text}")
    return JobWord(text, int(found[1]), (found[2] or "").strip("[]"), found[3] or "")


def _state(text: str | None) -> State | None:
    if text is None:
        return None
    state = find_state(text)
    if state not in _STATES:
        raise Fault(f"Invalid job state specified: {text}", "Valid job states are PENDING, RUNNING, and SUSPENDED")
    return state


def _signal(text: str | None) -> int:
    if text is None:
        return 0
    number = parse_signal(text)
    if number is None:
        raise Fault(f"Unknown job signal: {text}")
    return number


def _target(given: Sequence[Given]) -> Target:
    names = {each.option.name for each in given}
    if "full" in names:
        return "all"
    return "entrypoint" if "batch" in names else "steps"
