"""The flags that every command accepts, before or after its name."""

import argparse

from msgspec import Struct

FORMATS = ("table", "wide", "json", "yaml")
LONGEST_RETRY_S = 86400.0
GLOBAL_FLAGS = "global flags"


class Flags(Struct, frozen=True, kw_only=True):
    """None = not given."""

    output: str | None = None
    quiet: bool = False
    verbose: bool = False
    as_user: str | None = None
    tenant: str | None = None
    vcluster: str | None = None
    config: str | None = None
    no_color: bool = False
    api_url: str | None = None
    token_file: str | None = None
    ca_file: str | None = None
    insecure_http: bool = False
    retry_for: float | None = None
    stale: bool = False
    # Of commands that list things.
    list_columns: str = ""
    list_sort: str = ""
    list_no_headers: bool = False


# Flags that take a value, needed to find the command among them.
WITH_VALUE = frozenset(
    {
        "-o",
        "--output",
        "-t",
        "--tenant",
        "--vcluster",
        "--config",
        "--api-url",
        "--token-file",
        "--as",
        "--ca-file",
        "--retry-for",
    }
)
WITHOUT_VALUE = frozenset({"-q", "--quiet", "-v", "--verbose", "--no-color", "--insecure-http", "--stale"})

# Flags a script may set for itself; any other could let a script choose where a token is sent.
ALLOWED_IN_SCRIPTS = frozenset({"tenant", "vcluster"})


def add_flags(parser: argparse.ArgumentParser, *, vcluster: bool) -> None:
    group = parser.add_argument_group(GLOBAL_FLAGS)
    add = group.add_argument
    if "--output" not in parser._option_string_actions:  # a command may define its own --output
        add(
            "-o",
            "--output",
            choices=FORMATS,
            metavar="FORMAT",
            help="output format: table, wide, json or yaml (default: table)",
        )
    add("-q", "--quiet", action="store_true", help="print only the essential result")
    add("-v", "--verbose", action="store_true", help="show more detail")
    add("-t", "--tenant", metavar="NAME", help="act on behalf of this tenant")
    if vcluster:
        add("--vcluster", metavar="NAME", help="use this vCluster")
    add("--config", metavar="FILE", help="configuration file (default: ~/.config/lattice/config.yaml)")
    add("--no-color", action="store_true", help="disable colors (also: NO_COLOR=1)")
    add("--stale", action="store_true", help="read what the server has, even if it cannot reach the others")
    add("--api-url", metavar="URL", help="URL of the API; separate several with commas")
    add("--token-file", metavar="FILE", help="read the token from this file")
    add("--as", dest="as_user", metavar="USER", help="act as this user of the local cluster (see `lattice up --users`)")
    add("--ca-file", metavar="FILE", help="CA bundle to use for HTTPS (default: the system's)")
    add("--insecure-http", action="store_true", help="allow plain http to other machines, which exposes the token")
    add(
        "--retry-for",
        metavar="S",
        type=_seconds,
        help="retry unanswered requests for S seconds, 0 = never (default: 60; 5 for listings on a terminal)",
    )


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds <= LONGEST_RETRY_S:
        raise argparse.ArgumentTypeError(f'"{text}" is not between 0 and {LONGEST_RETRY_S:.0f}')
    return seconds


_seconds.__name__ = "number of seconds"


def not_empty(text: str) -> str:
    """For a flag without which work would run elsewhere or without something: a variable that was never set must not mean that."""
    if not text:
        raise argparse.ArgumentTypeError("it is empty; give a value, or leave the flag out")
    return text
