"""The Slurm commands on the wire: a command line as it was typed, and what its program is to print and do."""

from typing import Annotated

from msgspec import Meta, Struct

from lattice.wire.bounds import Argument, WholeText

MAX_WORDS = 32_768


class SlurmCommand(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`argv` without the program's name; `environment` holds the variables that the command may pass on.

    `script` is the text behind `script_path`, or what came on stdin when there is no path. `resume` is the answer's, when it asked for that.
    """

    program: str
    argv: Annotated[list[Argument], Meta(max_length=MAX_WORDS)] = []
    cwd: str = ""
    environment: dict[str, Argument] = {}
    script: WholeText | None = None
    script_path: str = ""
    host: str = ""
    uid: int = 0
    gid: int = 0
    umask: int = 0o022
    resume: str = ""
    request_id: str = ""


class SlurmStep(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step that the command follows to its end: it shows output and forwards input and signals.

    `stdout`, `stderr` are files that the program writes; empty = its own streams.
    """

    allocation: str
    step: int
    tasks: int
    label: bool = False
    stdin: str = ""  # a file; empty = its own stdin, unless `fed` says none
    fed: bool = True
    pty: bool = False
    stdout: str = ""
    stderr: str = ""
    append: bool = False
    resume: str = ""  # what to say when it has ended; CODE in it stands for the exit code
    detaches: bool = (
        False  # joins a step of another command: begins with the newest output, and leaving it ends nothing
    )
    only_stdout: int = -1  # the one task whose stdout is shown; -1 = all
    only_stderr: int = -1
    only_stdin: int = -1  # the one task that gets input; -1 = all that take it


class SlurmProgram(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A program to run on the caller's machine; an empty `argv` means a shell."""

    argv: list[str] = []
    environment: dict[str, str] = {}
    resume: str = ""  # what to say when it has ended; CODE in it stands for the exit code


class SlurmAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The command prints this output unchanged and exits with `code`, unless there is more to do.

    With `needs` nothing was done yet: `script` asks for the file `path`, `stdin` for what is piped in, and the same command is sent
    again with it. With `resume` the command is asked again with that word, for what takes longer. With `attend` or `spawn` the program
    does that first.
    """

    stdout: str = ""
    stderr: str = ""
    code: int = 0
    needs: str = ""
    path: str = ""
    resume: str = ""
    attend: SlurmStep | None = None
    spawn: SlurmProgram | None = None
