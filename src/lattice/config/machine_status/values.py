"""Values of the three files: each reader gives the value, or reports why there is none."""

import re
from dataclasses import dataclass

from lattice.config.machine_status.problems import Findings
from lattice.core.model.nodes.specifications import MAX_PARTITION

MAX_WHOLE = 1 << 40
NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_WHOLE = re.compile(r"\d{1,13}", re.ASCII)
_REAL = re.compile(r"\d{1,12}(\.\d{0,9})?|\.\d{1,9}", re.ASCII)


@dataclass(frozen=True)
class Reader:
    """Reads the values of one record, or one parameter, and reports under its place."""

    file: str
    line: int
    findings: Findings

    def report(self, text: str) -> None:
        self.findings.error(self.file, self.line, text)

    def whole(self, name: str, value: str, *, least: int = 0) -> int:
        if not _WHOLE.fullmatch(value) or not least <= int(value) <= MAX_WHOLE:
            self.report(f"{name}={value[:40]}: a whole number from {least} on is wanted")
            return 0
        return int(value)

    def real(self, name: str, value: str) -> float:
        if not _REAL.fullmatch(value):
            self.report(f"{name}={value[:40]}: a number, not negative, is wanted")
            return 0.0
        return float(value)

    def partitions(self, name: str, value: str) -> tuple[int, ...]:
        """Numbers apart by commas; nothing = in none."""
        numbers = [self._partition(name, value, part) for part in value.split(",")] if value else []
        return tuple(sorted({number for number in numbers if number is not None}))

    def _partition(self, name: str, value: str, part: str) -> int | None:
        if _WHOLE.fullmatch(part) and int(part) <= MAX_PARTITION:
            return int(part)
        self.report(f"{name}={value[:80]}: partitions are numbers from 0 to {MAX_PARTITION}, apart by commas")
        return None

    def node_name(self, name: str, value: str) -> str:
        if not NODE_NAME.fullmatch(value):
            self.report(
                f"{name}={value[:80]}: no name of a node: up to 63 letters, digits, dots, dashes and underscores"
            )
        return value

    def choice(self, name: str, value: str, known: tuple[str, ...]) -> str:
        if value.upper() not in known:
            self.report(f"{name}={value[:40]}: one of {', '.join(known)} is wanted")
        return value.upper()

    def path(self, name: str, value: str) -> str:
        if not value.startswith("/"):
            self.report(f"{name}={value[:80]}: a fully qualified path name is wanted, one that begins with /")
        return value
