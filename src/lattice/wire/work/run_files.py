"""Files of a run's own choice, and the signal before its limit, as a submission says them."""

from typing import Literal

from msgspec import Struct

from lattice.ports.nodes.agents import EarlySignal, SignalTarget
from lattice.slurm.text.signals import parse_signal
from lattice.wire.text.problems import BadField
from lattice.wire.text.texts import MAX_PATH, check_line

MAX_BEFORE_S = 65_535
DEFAULT_BEFORE_S = 60
TO_ENTRYPOINT = "B:"

OpenMode = Literal["truncate", "append"]


class OutputFiles(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """File name patterns: `%j` number, `%x` name, `%a` index, `%N` node and so on. An empty `stderr` goes to `stdout`."""

    stdout: str = ""
    stderr: str = ""
    stdin: str = ""
    mode: OpenMode = "truncate"


def check_files(files: OutputFiles | None) -> OutputFiles | None:
    """Raises BadField for names that no file can have."""
    if files is None:
        return None
    for name in ("stdout", "stderr", "stdin"):
        check_line(getattr(files, name), f"output.{name}", MAX_PATH)
    return files


def parse_early(text: str, to: SignalTarget = "all") -> EarlySignal | None:
    """`USR1@90`, `B:TERM@30` to the entrypoint alone, `USR2`; None when it cannot be read."""
    rest = text.removeprefix(TO_ENTRYPOINT)
    word, separator, seconds = rest.partition("@")
    number = parse_signal(word)
    if number is None or (separator and not (seconds.isascii() and seconds.isdigit() and len(seconds) < 7)):
        return None
    before_s = int(seconds) if separator else DEFAULT_BEFORE_S
    if before_s > MAX_BEFORE_S:
        return None
    return EarlySignal(signal=number, before_s=before_s, to="entrypoint" if rest != text else to)


def check_early(text: str, field: str) -> str:
    if text and parse_early(text) is None:
        raise BadField(
            field,
            f'cannot read "{text[:60]}"',
            limit=f"{MAX_BEFORE_S} seconds",
            hint="write SIGNAL@SECONDS, as in USR1@90; B:USR1@90 for the script alone",
        )
    return text
