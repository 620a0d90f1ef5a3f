"""`--version` of the programs."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from lattice.config.release import installed_release


class _ShowVersion(argparse.Action):
    """Looks the number up only when it is wanted: that takes 10 ms."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        sys.stdout.write(f"{parser.prog} {installed_release()}\n")
        parser.exit()


def add_version(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--version", action=_ShowVersion, nargs=0, help="print the version", default=argparse.SUPPRESS)
