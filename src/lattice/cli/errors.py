"""Exit codes of `lattice`, and how an error is told.

| code | meaning |
|---|---|
| 0 | done |
| 1 | refused by the server, or failed for a reason that has no code of its own |
| 2 | the command line, a script directive or the configuration is wrong; nothing was sent |
| 3 | `lattice up` only: a cluster is already running in that directory |
| 4 | there is no such allocation, node, tenant ... |
| 5 | not logged in, or not permitted |
| 6 | the server cannot be reached, or is not ready |
| 124 | `wait --timeout`: the time is over, the allocation is not |
| 130 | interrupted |
| 141 | nobody reads the output any more |

`wait` and `submit --wait` hand on how the allocation ended: 0 when it completed, its own exit code,
128 + n after signal n, 130 when it was cancelled, 125 when it failed without a code; of several the
highest. `launch` hands on the highest of its tasks: their exit codes, 128 + n after signal n, 127 for a program
that could not be started, 125 for tasks whose node was lost. `node diff` ends with 1 when the nodes differ,
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

START_HINT = "start a local cluster with `lattice up` (or `make up`), or name another by --api-url or LATTICE_API_URL"
LOGIN_HINT = 'run `lattice login`, set LATTICE_TOKEN_FILE, or run `eval "$(lattice env)"` beside a local cluster'


class CommandError(Exception):
    """A failure that the command itself noticed."""

    def __init__(self, message: str, *, hint: str = "", exit_code: int = REFUSED) -> None:
        super().__init__(message)
        self.hint = hint
        self.exit_code = exit_code


class UsageError(CommandError):
    """The command was not understood; nothing was sent."""

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
    """The lines for a person: what happened, the figures, what to do."""
    lines = [f"Error: {message_of(error)}"]
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
                ("Current", error.current),
                ("Requested", error.requested),
                ("Limit", error.limit),
                ("Hint", hint),
            ]
        case CommandError():
            return [("Hint", error.hint)]
        case Unreachable() | BadAnswer():
            return [("Hint", START_HINT)]
        case NoToken():
            return [("Hint", LOGIN_HINT)]
        case LoginFailed():
            return [("Hint", error.hint)]
        case _:
            return []
