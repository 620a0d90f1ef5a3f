"""The flags that every command has, before or after its name."""

import argparse
from dataclasses import dataclass

from lattice_sdk.retry import DEFAULT_RETRY_FOR_S

FORMATS = ("table", "wide", "json", "yaml")
LONGEST_RETRY_S = 86400.0


@dataclass(frozen=True, kw_only=True)
class Flags:
    """None = not given."""

    output: str | None = None
    quiet: bool = False
    verbose: bool = False
    tenant: str | None = None
    vcluster: str | None = None
    config: str | None = None
    no_color: bool = False
    api_url: str | None = None
    token_file: str | None = None
    ca_file: str | None = None
    retry_for: float = DEFAULT_RETRY_FOR_S


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
        "--ca-file",
        "--retry-for",
    }
)
WITHOUT_VALUE = frozenset({"-q", "--quiet", "-v", "--verbose", "--no-color"})

# What a script may say about itself; the rest would let a script choose where a token is sent.
ALLOWED_IN_SCRIPTS = frozenset({"tenant", "vcluster"})


def add_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("flags of every command")
    add = group.add_argument
    if "--output" not in parser._option_string_actions:  # what a command calls its output is its own business
        add("-o", "--output", choices=FORMATS, metavar="FORMAT", help="table, wide, json or yaml")
    add("-q", "--quiet", action="store_true", help="print only what was asked for")
    add("-v", "--verbose", action="store_true", help="say what is being done")
    add("-t", "--tenant", metavar="NAME", help="act for this tenant")
    add("--vcluster", metavar="NAME", help="the vCluster meant")
    add("--config", metavar="FILE", help="configuration file (~/.config/lattice/config.yaml)")
    add("--no-color", action="store_true", help="no colours, as with NO_COLOR")
    add("--api-url", metavar="URL", help="address of the API; several with commas")
    add("--token-file", metavar="FILE", help="file that holds the token")
    add("--ca-file", metavar="FILE", help="whom to trust with https, instead of the system's authorities")
    add(
        "--retry-for",
        metavar="S",
        type=_seconds,
        help="repeat a call without an answer for so many seconds (60; 0 = never)",
    )


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds <= LONGEST_RETRY_S:
        raise argparse.ArgumentTypeError(f'"{text}" is not between 0 and {LONGEST_RETRY_S:.0f}')
    return seconds


_seconds.__name__ = "number of seconds"
