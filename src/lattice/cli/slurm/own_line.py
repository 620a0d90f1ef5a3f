"""What a server may ask of a Slurm program: to open, run and write only what its own command line names.

A compromised or impersonated server gets no other file of the user and cannot start a program.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

NOTHING = "/dev/null"
# Letter, long name, and variable of the options that name srun's files.
STDIN = ("i", "input", "SLURM_STDINMODE")
STDOUT = ("o", "output", "SLURM_STDOUTMODE")
STDERR = ("e", "error", "SLURM_STDERRMODE")
_FOLDER = ("D", "chdir", "SLURM_WORKING_DIR")
_VARIABLES = ("SLURM_", "SLURMD_")


def names_file(argv: "Sequence[str]", name: str) -> bool:
    """Whether the server's requested file is a word of the command line."""
    return bool(name) and not name.startswith("-") and name in argv


def names_program(argv: "Sequence[str]", words: "Sequence[str]") -> bool:
    """Whether these words are the end of the line, which contains the program to run."""
    if not words:
        return True
    return not words[0].startswith("-") and list(argv[-len(words) :]) == list(words)


def may_set(name: str) -> bool:
    """Whether a server may set this variable for the program; other variables could make it load or run code."""
    return name.startswith(_VARIABLES)


def names_output(
    argv: "Sequence[str]", variables: "Mapping[str, str]", cwd: str, option: tuple[str, str, str], path: str
) -> bool:
    """Whether the line's option, or its variable, names the path, in which the server has expanded % patterns."""
    from posixpath import join, normpath  # for srun alone: with `os`, it takes longer to import than all of sbatch

    if path == NOTHING:
        return True
    folders = [normpath(join(cwd, each)) for each in ("", *_values(argv, variables, _FOLDER))]
    patterns = list(_values(argv, variables, option))
    return any(_fits(join(folder, pattern), path) for folder in folders for pattern in patterns)


def _values(argv: "Sequence[str]", variables: "Mapping[str, str]", option: tuple[str, str, str]) -> "Iterator[str]":
    """All values that the option may have, in any spelling: -o X, -oX, -lo X, --output X, --out=X."""
    letter, name, variable = option
    if variables.get(variable):
        yield variables[variable]
    for place, word in enumerate(argv):
        following = argv[place + 1 : place + 2]
        if word.startswith("--"):
            head, given, value = word[2:].partition("=")
            if head and name.startswith(head):
                yield from (value,) if given else following
        elif word.startswith("-") and letter in word[1:]:
            value = word[1:].partition(letter)[2]
            yield from (value, value.removeprefix("=")) if value else following


def _fits(pattern: str, path: str) -> bool:
    """Whether the path matches the pattern, with text without a slash for each %N."""
    # A backslash anywhere disables all patterns.
    first, *others = [pattern.replace("\\", "")] if "\\" in pattern else _pieces(pattern)
    if not path.startswith(first):
        return False
    rest = path[len(first) :]
    for place, piece in enumerate(others, start=1):
        at = len(rest) - len(piece) if place == len(others) else rest.find(piece)
        if at < 0 or "/" in rest[:at] or not rest[at:].startswith(piece):
            return False
        rest = rest[at + len(piece) :]
    return not rest


def _pieces(pattern: str) -> list[str]:
    """The literal parts around %j, %4t and the like; %% is a percent sign."""
    pieces, at = [""], 0
    while at < len(pattern):
        if pattern[at] != "%":
            pieces[-1] += pattern[at]
            at += 1
            continue
        at += 1
        if pattern[at : at + 1] == "%":
            pieces[-1] += "%"
            at += 1
            continue
        while pattern[at : at + 1].isdigit():
            at += 1
        at += 1
        pieces.append("")
    return pieces


def unnamed(program: str, what: str, names: "Iterable[str]") -> str:
    """The message for the user."""
    shown = " ".join(names)[:200]
    return f"{program}: error: refusing to {what} a file that this command line does not name: {shown}\n"
