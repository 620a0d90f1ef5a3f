"""Names seen lately, for the shell's completion: written by commands on a terminal, read by `complete-word`."""

import os
from collections.abc import Iterable, Mapping

import msgspec

from lattice.cli.context import Context

KEPT = 200


class Recent(msgspec.Struct, kw_only=True):
    allocations: list[str] = []
    nodes: list[str] = []
    vclusters: list[str] = []


def recent_path(environment: Mapping[str, str]) -> str:
    home = environment.get("HOME") or os.path.expanduser("~")
    folder = environment.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    return os.path.join(folder, "lattice", "recent.json")


def read_recent(environment: Mapping[str, str]) -> Recent:
    try:
        with open(recent_path(environment), "rb") as file:
            return msgspec.json.decode(file.read(), type=Recent)
    except (OSError, msgspec.MsgspecError):
        return Recent()


def remember(
    context: Context,
    *,
    allocations: Iterable[str] = (),
    nodes: Iterable[str] = (),
    vclusters: Iterable[str] = (),
) -> None:
    """Keep names for completion. Only a person at a terminal completes, so scripts pay nothing."""
    if not context.streams.stdout.isatty():
        return
    environment = context.process.environment
    old = read_recent(environment)
    new = Recent(
        allocations=_merged(allocations, old.allocations),
        nodes=_merged(nodes, old.nodes),
        vclusters=_merged(vclusters, old.vclusters),
    )
    path = recent_path(environment)
    scratch = f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(scratch, "wb") as file:
            file.write(msgspec.json.encode(new))
        os.replace(scratch, path)
    except OSError:
        return  # a convenience, not worth a word


def _merged(new: Iterable[str], old: list[str]) -> list[str]:
    return list(dict.fromkeys([*new, *old]))[:KEPT]
