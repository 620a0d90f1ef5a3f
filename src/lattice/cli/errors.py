"""Exit codes of `lattice`, and how errors are printed.

| code | meaning |
|---|---|
| 0 | success |
| 1 | refused by the server, or failed for a reason that has no code of its own |
| 2 | invalid command line, script directive or configuration; nothing was sent |
| 3 | `lattice up` only: a cluster is already running in that directory |
| 4 | no such allocation, node, tenant, ... |
| 5 | not logged in, or not permitted |
| 6 | the server is unreachable or not ready |
| 124 | `wait --timeout`: timed out while still running |
| 130 | interrupted |
| 141 | stdout was closed |

`run`, `wait` and `submit --wait` exit with the allocation's exit code: 0 when it completed, its own code,
128 + n after signal n, 130 when it was cancelled, 125 when it failed without a code; with several, the
highest. `launch` exits with the highest code of its tasks: their exit codes, 128 + n after signal n, 127 for a program
that could not be started, 125 for tasks whose node was lost. `node diff` exits with 1 when the nodes differ,
`node check` when a check fails.
"""

from lattice_sdk.errors import (
    ApiError,
    BadAnswer,
    Forbidden,
    LatticeError,
    LoginFailed,
    NotAuthenticated,
    NotFound,
    NoToken,
    Unreachable,
    WaitTimedOut,
)

OK = 0
REFUSED = 1
USAGE = 2
ALREADY_RUNNING = 3
NOT_FOUND = 4
NOT_PERMITTED = 5
UNREACHABLE = 6
TIMED_OUT = 124
FAILED_WITHOUT_CODE = 125
INTERRUPTED = 130
BROKEN_PIPE = 141

START_HINT = (
    "start a local cluster with `lattice up` (or `make up`), or choose another with --api-url or LATTICE_API_URL"
)
LOGIN_HINT = 'run `lattice login`, set LATTICE_TOKEN_FILE, or run `eval "$(lattice env)"` for a local cluster'


class CommandError(Exception):
    """A failure detected by the command itself."""

    def __init__(self, message: str, *, hint: str = "", exit_code: int = REFUSED) -> None:
        super().__init__(message)
        self.hint = hint
        self.exit_code = exit_code


class UsageError(CommandError):
    """The command line is invalid; nothing was sent."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint, exit_code=USAGE)


def exit_code(error: LatticeError | CommandError) -> int:
    match error:
        case CommandError():
            return error.exit_code
        case NotFound():
            return NOT_FOUND
        case NotAuthenticated() | Forbidden() | NoToken() | LoginFailed():
            return NOT_PERMITTED
        case Unreachable() | BadAnswer():
            return UNREACHABLE
        case WaitTimedOut():
            return TIMED_OUT
        case ApiError(code="unavailable"):
            return UNREACHABLE
        case _:
            return REFUSED


def describe(error: LatticeError | CommandError) -> str:
    """The lines to print: what happened, the figures, how to fix it."""
    lines = [f"error: {message_of(error)}"]
    lines += [f"  {label}: {text}" for label, text in _figures(error) if text]
    return "".join(f"{line}\n" for line in lines)


def message_of(error: LatticeError | CommandError) -> str:
    match error:
        case Unreachable(endpoints=endpoints, cause=cause):
            return f"the server is not reachable at {', '.join(endpoints)}: {cause}"
        case NoToken():
            return f"not logged in: {error}"
        case _:
            return str(error)


def _figures(error: LatticeError | CommandError) -> list[tuple[str, str]]:
    match error:
        case ApiError():
            hint = error.hint or (LOGIN_HINT if isinstance(error, NotAuthenticated) else "")
            return [
                ("current", error.current),
                ("requested", error.requested),
                ("limit", error.limit),
                ("hint", hint),
            ]
        case CommandError():
            return [("hint", error.hint)]
        case Unreachable() | BadAnswer():
            return [("hint", START_HINT)]
        case NoToken():
            return [("hint", LOGIN_HINT)]
        case LoginFailed():
            return [("hint", error.hint)]
        case _:
            return []
