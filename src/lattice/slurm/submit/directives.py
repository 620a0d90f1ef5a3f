"""`#SBATCH` lines: which lines of a script count, and their words, with Slurm's rules for quotes and comments."""

from typing import NamedTuple

from lattice.slurm.faults import WRONG_LINE, Fault, error
from lattice.slurm.submit.getopt import Given, Grammar

MARK = "#SBATCH"
MAX_HEADER = 64 << 10
_QUOTES = "\"'"


class Directive(NamedTuple):
    line: int
    words: tuple[str, ...]


def check_script(script: str, program: str = "sbatch") -> None:
    """Refuses what Slurm would not accept as a batch script."""
    if not script.strip():
        raise error(program, "Batch script is empty!")
    if not script.startswith("#!"):
        raise Fault(
            f"{program}: error: This does not look like a batch script.  The first",
            f"{program}: error: line must start with #! followed by the path to an interpreter.",
            f"{program}: error: For instance: #!/bin/sh",
        )
    if "\r\n" in script:
        raise Fault(
            f"{program}: error: Batch script contains DOS line breaks (\\r\\n)",
            f"{program}: error: instead of expected UNIX line breaks (\\n).",
        )


def read_directives(script: str) -> list[Directive]:
    """The directives before the first command, which must come within MAX_HEADER characters (else Fault); a second `#` makes a line a comment, `hetjob` is left to the caller."""
    found = []
    for number, line in enumerate(script[:MAX_HEADER].splitlines(), start=1):
        text = line.strip()
        if text and not text.startswith("#"):
            break
        rest = line[len(MARK) :]
        if line.startswith(MARK) and (not rest or rest[0].isspace()):
            found.append(Directive(number, tuple(split_words(rest))))
    else:
        if len(script) > MAX_HEADER:
            raise error("sbatch", f"no command in the first {MAX_HEADER:,} characters of the batch script")
    return found


def directive_options(script: str, grammar: Grammar) -> tuple[Given, ...]:
    """All options in the script, in order."""
    given: list[Given] = []
    for directive in read_directives(script):
        if directive.words[:1] in (("hetjob",), ("packjob",)):
            raise error(grammar.program, "heterogeneous jobs are not supported")
        words = directive.words
        while words:
            line = grammar.read(words)
            given += line.given
            if line.words:
                stray = f"Invalid directive found in batch script: {line.words[0]}"
                raise error(grammar.program, stray, code=WRONG_LINE)
            words = ()
    return tuple(given)


def split_words(text: str) -> list[str]:
    """Words of a directive: quotes join, a backslash keeps the next character, a `#` at the start of a word ends the line."""
    words: list[str] = []
    current: list[str] = []
    quote, is_open, at = "", False, 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == "\\" and at < len(text) and quote != "'":
            current.append(text[at])
            is_open, at = True, at + 1
        elif quote:
            quote = "" if char == quote else quote
            current += [char] if quote else []
        elif char in _QUOTES:
            quote, is_open = char, True
        elif char.isspace():
            words += ["".join(current)] if is_open else []
            current, is_open = [], False
        elif char == "#" and not is_open:
            return words
        else:
            current.append(char)
            is_open = True
    return [*words, "".join(current)] if is_open else words
