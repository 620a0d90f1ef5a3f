"""The command line of sinfo and its variables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lattice.slurm.faults import Fault
from lattice.slurm.listings import sinfo
from lattice.slurm.listings.listing import ALIKE, ListingLine, flag, read_line, value
from lattice.slurm.listings.machine import STATE_WORDS, NodeRow, is_state_word
from lattice.slurm.submit.getopt import Grammar
from lattice.slurm.text.formats import Parts, parse_known, parse_percent
from lattice.slurm.text.hostlists import BadHostlist, expand
from lattice.slurm.text.numbers import whole

GRAMMAR = Grammar(
    "sinfo",
    (
        *ALIKE,
        flag("all", "a"),
        flag("dead", "d"),
        flag("exact", "e"),
        flag("federation"),
        flag("future", "F"),
        flag("hide"),
        value("iterate", "i"),
        flag("json"),
        flag("list-reasons", "R"),
        flag("local"),
        flag("long", "l"),
        value("clusters", "M", "cluster"),
        flag("Node", "N"),
        value("nodes", "n"),
        flag("noconvert"),
        flag("noheader", "h"),
        value("format", "o"),
        value("Format", "O"),
        value("partition", "p"),
        flag("reservation", "T"),
        flag("responding", "r"),
        value("sort", "S"),
        value("states", "t", "state"),
        flag("summarize", "s"),
        flag("yaml"),
    ),
)


@dataclass(frozen=True, kw_only=True)
class Query:
    line: ListingLine
    parts: Parts
    complaints: tuple[str, ...]
    partitions: frozenset[str] | None
    nodes: frozenset[str] | None
    states: tuple[str, ...]
    time_form: str

    def takes(self, node: NodeRow) -> bool:
        line = self.line
        if line.has("list-reasons") and not (node.reason and node.is_out):
            return False
        return (
            (self.nodes is None or node.name in self.nodes)
            and (not self.states or any(_is_in(node, text) for text in self.states))
            and (not line.has("dead") or node.is_silent)
            and (not line.has("responding") or not node.is_silent)
        )


def _is_in(node: NodeRow, text: str) -> bool:
    """`a&b` means both."""
    return all(node.is_in(word) for word in text.split("&"))


def read_query(argv: Sequence[str], environment: Mapping[str, str]) -> Query:
    """Raises Fault for a line that sinfo refuses."""
    line = read_line(GRAMMAR, argv)
    states = line.items("states")
    if line.has("iterate") and whole(line.last("iterate")) is None:
        raise Fault(f"sinfo: error: --iterate={line.last('iterate')}")
    for word in (word for text in states for word in text.split("&")):
        if not is_state_word(word):
            raise Fault(f'sinfo: error: Bad state string: "{word}"', f"sinfo: error: valid states: {STATE_WORDS}")
    parts, complaints = _parts(line, environment)
    return Query(
        line=line,
        parts=parts,
        complaints=complaints,
        partitions=frozenset(line.items("partition", environment.get("SINFO_PARTITION", ""))) or None,
        nodes=_nodes(line),
        states=states,
        time_form=environment.get("SLURM_TIME_FORMAT", ""),
    )


def _nodes(line: ListingLine) -> frozenset[str] | None:
    text = line.last("nodes")
    if not text or text.lower() == "all":
        return None
    try:
        return frozenset(expand(text))
    except BadHostlist:
        raise Fault(f"sinfo: error: Invalid node list: {text}") from None


def _parts(line: ListingLine, environment: Mapping[str, str]) -> tuple[Parts, tuple[str, ...]]:
    which = line.which("format", "Format")
    text = line.last(which) if which else _usual(line, environment)
    if which != "Format":
        # `%all` stands for every column.
        if text.lower() == "%all":
            text = "|".join(f"%{letter}" for letter in sinfo.LETTERS)
        return parse_percent(text, sinfo.LETTERS), ()
    parts, unknown = parse_known(text, sinfo.NAMES)
    return parts, tuple(f"sinfo: error: Invalid job format specification: {name}" for name in unknown)


def _usual(line: ListingLine, environment: Mapping[str, str]) -> str:
    is_long = line.has("long")
    if line.has("summarize"):
        return sinfo.SUMMARY
    if line.has("list-reasons"):
        return sinfo.REASONS_LONG if is_long else sinfo.REASONS
    if line.has("Node"):
        return sinfo.NODES_LONG if is_long else sinfo.NODES
    if is_long:
        return sinfo.LONG
    return environment.get("SINFO_FORMAT", "") or sinfo.DEFAULT
