"""`lattice-quorum`: another name for what concerns the servers of a cluster.

lattice-quorum bootstrap --config FILE [--recover-from PATH]         lattice-server --bootstrap
lattice-quorum join --config FILE --join-token-file FILE             lattice-server --join
lattice-quorum membership list|add|remove|promote [NAME]             lattice admin raft members

Everything else on the line goes to that program as it is.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

EXIT_USAGE = 2  # a line that means nothing here
USAGE = """\
usage: lattice-quorum bootstrap --config FILE [--recover-from PATH | --from-object-store] [flags of lattice-server]
       lattice-quorum join --config FILE --join-token-file FILE [flags of lattice-server]
       lattice-quorum membership list|add|remove|promote [NAME] [flags of lattice admin raft members]

start the servers of a cluster and say who belongs to them

examples:
  lattice-quorum bootstrap --config /etc/lattice/server.yaml
  lattice-quorum membership add s2
  lattice-quorum join --config /etc/lattice/server.yaml --join-token-file s2.join
  lattice-quorum membership remove s2
"""
# What other schedulers' guides write on the command line stands in the configuration file here.
_IN_THE_FILE = {
    "--listen": "quorum.peer_listen",
    "--data-dir": "data_dir",
    "--addr": "quorum.peers",
    "--node-id": "name",
}


class WrongUsage(Exception):
    """The text says what to write instead."""


def translate(words: Sequence[str]) -> list[str]:
    """The command line of the program that does it. Raises WrongUsage."""
    if not words:
        raise WrongUsage("a command is missing: bootstrap, join or membership")
    first, rest = words[0], list(words[1:])
    if first == "membership":
        return ["lattice", "admin", "raft", "members", *_named(rest)]
    if first.startswith("-"):  # `lattice-quorum --bootstrap --recover-from=PATH`
        first, rest = "", list(words)
    elif first not in ("bootstrap", "join"):
        raise WrongUsage(f"unknown command {first!r}; there are bootstrap, join and membership")
    for word in rest:
        flag, equals, _ = word.partition("=")
        if flag in _IN_THE_FILE:
            raise WrongUsage(
                f"{flag} is {_IN_THE_FILE[flag]} in the configuration file of the server; give --config FILE"
            )
        if flag == "--join" and equals:
            raise WrongUsage(
                "--join takes no address: the invitation of `lattice-quorum membership add` names the servers"
            )
    return ["lattice-server", *([f"--{first}"] if first else []), *rest]


def _named(words: list[str]) -> list[str]:
    """`--node-id=NAME` is the name of the server."""
    found: list[str] = []
    left = iter(words)
    for word in left:
        flag, equals, value = word.partition("=")
        if flag == "--addr":
            raise WrongUsage("--addr: a server tells its addresses itself, from quorum.peers of its configuration file")
        if flag != "--node-id":
            found.append(word)
        elif name := value if equals else next(left, ""):
            found.append(name)
        else:
            raise WrongUsage("--node-id needs a name")
    return found


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] in (["-h"], ["--help"]):
        sys.stdout.write(USAGE)
        raise SystemExit(0)
    try:
        line = translate(words)
    except WrongUsage as error:
        sys.stderr.write(f"lattice-quorum: {error}\n")
        raise SystemExit(EXIT_USAGE) from None
    os.execv(Path(sys.argv[0]).resolve().with_name(line[0]), line)  # noqa: S606 - a program of this installation


if __name__ == "__main__":
    main()
