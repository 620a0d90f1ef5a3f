"""What is wrong with a configuration file: which file, which line, why. Errors forbid an import, warnings come with it."""

from dataclasses import dataclass, field

MAX_SHOWN = 50


@dataclass(frozen=True, kw_only=True)
class Problem:
    file: str
    line: int  # from 1; 0 = the file as a whole
    text: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.text}"


@dataclass
class Findings:
    """Everything that was found in reading one set of files."""

    errors: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def error(self, file: str, line: int, text: str) -> None:
        self.errors.append(Problem(file=file, line=line, text=text))

    def warn(self, file: str, line: int, text: str) -> None:
        self.warnings.append(Problem(file=file, line=line, text=text))
