"""Where an agent's log messages go."""

import argparse
from collections.abc import Callable

from lattice.daemons.agent.choices import CannotStart
from lattice.observe.log_files import LogFile
from lattice.observe.logging import LEVELS, configure


def add_log_options(add: Callable[..., argparse.Action], positive: Callable[[str], int]) -> None:
    add("--log-level", choices=LEVELS, default="info", help="minimum level of log messages (default: %(default)s)")
    add("--log-file", default="", metavar="FILE", help="file for log messages, reopened on SIGHUP (default: stderr)")
    add(
        "--log-size",
        type=positive,
        default=1 << 30,
        metavar="BYTES",
        help="largest size of that file (default: 1 GiB)",
    )
    add(
        "--log-count",
        type=positive,
        default=7,
        metavar="N",
        help="most log files that are kept (default: %(default)s)",
    )


def configure_logging(options: argparse.Namespace) -> None:
    """Raises CannotStart."""
    file = LogFile(options.log_file, options.log_size, options.log_count) if options.log_file else None
    try:
        configure("agent", options.log_level, fields={"node_id": options.node_id}, file=file)
    except OSError as error:
        raise CannotStart(f"--log-file: cannot write {options.log_file}: {error.strerror}") from error
