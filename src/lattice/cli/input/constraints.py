"""What `--constraint`, `--nodes` and `--nodelist` say, as the API wants it."""

import re
from collections.abc import Iterable

from lattice.cli.errors import UsageError
from lattice_sdk.models.records import Constraints

_TERM = re.compile(r"([A-Za-z_][\w.-]*)\s*(>=|<=|!=|=|:|<|>)\s*(.+)")
_COMMA = re.compile(r",(?![^\[]*\])")
_RANGE = re.compile(r"(\d+)-(\d+)")
_BRACKET = re.compile(r"([^\[\]]*)\[([^\[\]]+)\](.*)")
HINT = 'such as "gpu_type=GH200,gpu_count=4,memory_gb>=512,nvme"'
SWITCHES = frozenset(
    {"require_unified_memory", "allow_cxl_memory", "require_conformance", "prefer_same_numa", "prefer_local_memory"}
)
# A feature is any word, but one of these forms is a constraint that was misspelt.
_RESERVED = re.compile(r"(require|prefer|allow)_\w+|(gpu|memory|storage)_\w+|topology|nodes|exclude")
MAX_NAMES = 100_000


def parse_constraints(
    texts: Iterable[str],
    *,
    topology: str | None = None,
    nodes: str = "",
    exclude: str = "",
    memory_policy: str = "",
) -> Constraints:
    """All constraints of a submission in one record; UsageError for what means nothing."""
    given: dict[str, str] = {}
    features: list[str] = []
    for term in (part.strip() for text in texts for part in _COMMA.split(text)):
        if term:
            _take(term, given, features)
    return Constraints(
        gpu_type=given.get("gpu_type"),
        gpu_count=_number(given, "gpu_count"),
        memory_gb=_number(given, "memory_gb"),
        features=list(dict.fromkeys(features)),
        topology=topology or given.get("topology"),
        nodes=[*expand_names(nodes), *_names(given, "nodes")],
        exclude=[*expand_names(exclude), *_names(given, "exclude")],
        storage_gbps=_figure(given, "storage_gbps") or 0,
        require_unified_memory=_is_on(given, "require_unified_memory"),
        allow_cxl_memory=_is_on(given, "allow_cxl_memory"),
        require_conformance=_is_on(given, "require_conformance"),
        prefer_same_numa=_is_on(given, "prefer_same_numa"),
        prefer_local_memory=_is_on(given, "prefer_local_memory"),
        memory_policy=memory_policy or given.get("memory_policy", ""),
    )


def _take(term: str, given: dict[str, str], features: list[str]) -> None:
    match = _TERM.fullmatch(term)
    name, sign, value = match.groups() if match else (term, "", "")
    if name in SWITCHES and (not sign or (sign in {"=", ":"} and value in {"true", "false"})):
        given[name] = value or "true"
    elif not sign and not _RESERVED.fullmatch(term):
        features.append(term)
    elif name in {"feature", "features"} and sign in {"=", ":"}:
        features.extend(part for part in re.split(r"[+&]", value) if part)
    elif (name in {"gpu_count", "memory_gb", "storage_gbps"} and sign in {"=", ":", ">="}) or (
        name in {"gpu_type", "topology", "nodes", "exclude", "memory_policy"} and sign in {"=", ":"}
    ):
        given[name] = value
    else:
        raise UsageError(f'cannot read the constraint "{term}"', hint=HINT)


def _number(given: dict[str, str], name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f'constraint {name} takes a whole number, not "{text}"', hint=HINT)
    return int(text)


def _figure(given: dict[str, str], name: str) -> float | None:
    text = given.get(name)
    if text is None:
        return None
    if not re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII):
        raise UsageError(f'constraint {name} takes a number, not "{text}"', hint=HINT)
    return float(text)


def _names(given: dict[str, str], name: str) -> list[str]:
    """Several names with + between them, as a comma ends the constraint."""
    return expand_names(given.get(name, "").replace("+", ","))


def _is_on(given: dict[str, str], name: str) -> bool:
    return given.get(name) == "true"


def parse_nodes(text: str) -> tuple[int, int]:
    """Least and most nodes of `4` or `2-8`; the most is 0 when a number alone was given."""
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text), 0
    match = _RANGE.fullmatch(text)
    least, most = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 0 < least <= most:
        raise UsageError(f'--nodes takes a number such as 4 or a range such as 2-8, not "{text}"')
    return least, most


def expand_names(text: str) -> list[str]:
    """Names in `n1,n[3-5,7]`, in the order written."""
    names: list[str] = []
    for part in _COMMA.split(text):
        if part.strip():
            names.extend(_expanded(part.strip(), text))
        if len(names) > MAX_NAMES:
            raise UsageError(f"more than {MAX_NAMES} nodes are named")
    return list(dict.fromkeys(names))


def _expanded(part: str, whole: str) -> list[str]:
    match = _BRACKET.fullmatch(part)
    if match is None:
        if "[" in part or "]" in part:
            raise UsageError(f'cannot read the node list "{whole}"', hint="write n1,n[3-5,7]")
        return [part]
    head, inside, tail = match.groups()
    tails = _expanded(tail, whole) if tail else [""]
    return [head + number + rest for number in _numbers(inside, whole) for rest in tails]


def _numbers(inside: str, whole: str) -> list[str]:
    found: list[str] = []
    for piece in inside.split(","):
        first, dash, last = piece.strip().partition("-")
        last = last if dash else first
        plain = first.isascii() and first.isdigit() and last.isascii() and last.isdigit()
        if not plain or not 0 <= int(last) - int(first) <= MAX_NAMES:
            raise UsageError(f'cannot read the node list "{whole}"', hint="write n1,n[3-5,7]")
        found += [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
    return found
