"""The flags that arrange a list: which columns, in which order, with or without a header row."""

import argparse
from collections.abc import Callable
from typing import Any

from lattice.cli.flags import FORMATS

LIST_FORMATS = ("csv", "name")


COLUMNS = "show these columns (comma-separated), as named by -o wide"
SORT = "sort by these columns (comma-separated); -NAME sorts in descending order"
NO_HEADERS = "leave out the header row"


def add_arranged(add: Callable[..., Any]) -> None:
    add("--columns", metavar="NAMES", help=COLUMNS)
    add("--sort", metavar="NAMES", help=SORT)
    add("--no-headers", action="store_true", help=NO_HEADERS)


def arrange_lists(parser: argparse.ArgumentParser) -> None:
    """The same for commands whose lists are arranged by `show_list`; a command may define its own --sort."""
    add = parser.add_argument
    add("--columns", dest="list_columns", metavar="NAMES", help=COLUMNS)
    if "--sort" not in parser._option_string_actions:
        add("--sort", dest="list_sort", metavar="NAMES", help=SORT)
    add("--no-headers", dest="list_no_headers", action="store_true", help=NO_HEADERS)
    allow_list_formats(parser)


def allow_list_formats(parser: argparse.ArgumentParser) -> None:
    """Let -o take csv and name as well."""
    parser.add_argument(
        "-o",
        "--output",
        choices=(*FORMATS, *LIST_FORMATS),
        metavar="FORMAT",
        help="output format: table, wide, json, yaml, csv or name (default: table)",
    )
