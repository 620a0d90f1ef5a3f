"""Options of an agent about the data of runs."""

import argparse
from collections.abc import Callable
from pathlib import Path

from lattice.agent.hooks.data import TARGETS, DataSettings


def add_data(add: Callable[..., argparse.Action]) -> None:
    add(
        "--data-hot",
        type=Path,
        metavar="DIR",
        help="directory of the hot tier, where movers put copies of data for runs; under the same path for all",
    )
    add(
        "--data-targets",
        default=",".join(TARGETS),
        metavar="LIST",
        help="directories of root below which users may have data mounted (default: %(default)s)",
    )


def data_settings(options: argparse.Namespace) -> DataSettings:
    targets = tuple(each.strip().rstrip("/") for each in options.data_targets.split(",") if each.strip().rstrip("/"))
    hot = options.data_hot.absolute() if options.data_hot is not None else None
    return DataSettings(hot=hot, targets=targets)
