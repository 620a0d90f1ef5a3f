"""Which variables of the caller reach the work: `--export`, without what belonged to the job that the caller runs in."""

import re
from collections.abc import Mapping

from lattice.slurm.text.zones import VARIABLE

# Variables that lead to a token stay with the person; work gets its own.
_SECRETS = frozenset({"LATTICE_TOKEN", "LATTICE_TOKEN_FILE", "LATTICE_AGENT_TOKEN", "LATTICE_AGENT_TOKEN_FILE"})
_OF_COMMANDS = frozenset({VARIABLE})  # say something of the command that the caller typed
_SETTINGS = frozenset({"SLURM_TIME_FORMAT", "SLURM_CONF", "SLURM_CLUSTERS"})
_MARKS = re.compile("['\",]")


def exported(environment: Mapping[str, str], request: str) -> dict[str, str]:
    """The variables that `--export=WISH` passes on; all of them without the option."""
    words = [word for word in _items(request) if word]
    if not words or words[0].upper() == "ALL":
        found = {name: value for name, value in environment.items() if _is_handed_on(name)}
        words = words[1:]
    else:
        found = {}
    if words and words[0].upper() in ("NONE", "NIL"):
        return {}
    for word in words:
        name, is_given, value = word.partition("=")
        if is_given:
            found[name] = value
        elif name in environment:
            found[name] = environment[name]
    return {name: value for name, value in found.items() if name and name not in _SECRETS | _OF_COMMANDS}


def _items(request: str) -> list[str]:
    """Split at commas; inside quotes they belong to the value, and the quotes do not."""
    if "'" not in request and '"' not in request:
        return request.split(",")
    items: list[str] = []
    current: list[str] = []
    quote, start = "", 0
    for found in _MARKS.finditer(request):
        char = found[0]
        if quote and char != quote:
            continue
        current.append(request[start : found.start()])
        start = found.end()
        if char == ",":
            items.append("".join(current))
            current = []
        else:
            quote = "" if quote else char
    return [*items, "".join([*current, request[start:]])]


def _is_handed_on(name: str) -> bool:
    return name not in _SECRETS and (not name.startswith("SLURM_") or name in _SETTINGS)
