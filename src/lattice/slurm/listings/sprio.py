"""The columns of sprio: the components of a job's priority."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lattice.slurm.listings.listing import ALIKE, flag, maybe, value
from lattice.slurm.submit.getopt import Grammar

GRAMMAR = Grammar(
    "sprio",
    (
        *ALIKE,
        flag("federation"),
        flag("noheader", "h"),
        maybe("jobs", "j", "job"),
        flag("local"),
        flag("long", "l"),
        value("clusters", "M", "cluster"),
        flag("norm", "n"),
        value("format", "o"),
        flag("sibling"),
        value("partition", "p"),
        value("sort", "S"),
        value("user", "u", "users"),
        flag("weights", "w"),
    ),
)
DEFAULT = "%.15i %9r %.10Y %.10S %.10A %.10F %.10Q"
LONG = "%.15i %9r %.8u %.10Y %.10S %.10A %.10F %.10J %.10P %.10Q %.6N %T"
NORMALIZED = "%.15i %9r %10y %.10a %.10f %.10q"
WEIGHTS = "%.15i %9r %.10Y %.10S %.10A %.10F %.10Q"
TOP = 1_000_000

LETTERS: Mapping[str, str] = {
    "i": "JOBID",
    "r": "PARTITION",
    "u": "USER",
    "o": "ACCOUNT",
    "c": "CLUSTER",
    "Y": "PRIORITY",
    "y": "PRIORITY",
    "S": "SITE",
    "A": "AGE",
    "a": "AGE",
    "F": "FAIRSHARE",
    "f": "FAIRSHARE",
    "Q": "QOS",
    "q": "QOS",
    "J": "JOBSIZE",
    "j": "JOBSIZE",
    "P": "PARTITION",
    "p": "PARTITION",
    "N": "NICE",
    "T": "TRES",
    "t": "TRES",
}
# Our factors that have their own column; the site column sums all others.
_COLUMNS = {"A": "wait_time", "F": "fair_share", "Q": "priority"}


@dataclass(frozen=True, kw_only=True)
class Priority:
    """`factors` are between 0 and 1 and weighted with `weights`, which sum to 1."""

    job: str
    partition: str
    user: str
    account: str
    cluster: str
    total: float
    factors: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)

    def points(self, name: str) -> int:
        return round(self.factors.get(name, 0.0) * self.weights.get(name, 0.0) * TOP)

    def value_of(self) -> Callable[[str], str]:
        return self._value

    def _value(self, letter: str) -> str:
        plain = {"i": self.job, "r": self.partition, "u": self.user, "o": self.account, "c": self.cluster}
        if letter in plain:
            return plain[letter]
        if letter == "Y":
            return str(max(1, int(self.total * TOP)))
        if letter == "y":
            return f"{self.total:.10f}"
        if letter == "S":
            others = set(self.factors) - set(_COLUMNS.values()) - {"total"}
            return str(sum(self.points(name) for name in others))
        if letter in _COLUMNS:
            return str(self.points(_COLUMNS[letter]))
        if letter.upper() in _COLUMNS:
            return f"{self.factors.get(_COLUMNS[letter.upper()], 0.0):.7f}"
        return "" if letter in "tT" else "0"


def weight_of(weights: Mapping[str, float]) -> Callable[[str], str]:
    """The line of --weights."""

    def value(letter: str) -> str:
        if letter in _COLUMNS:
            return str(round(weights.get(_COLUMNS[letter], 0.0) * TOP))
        if letter == "S":
            return str(round(sum(weight for name, weight in weights.items() if name not in _COLUMNS.values()) * TOP))
        return "Weights" if letter == "i" else ""

    return value
