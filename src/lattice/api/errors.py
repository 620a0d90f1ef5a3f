"""Errors of the API: what went wrong inside, said once in the shape that every wire carries.

ApiError            an answer in the shape of docs/architecture/api.md
+- `code`           for programs; decides the status
+- everything else  for people
"""

from collections.abc import Iterable

from msgspec import Struct

from lattice.core.machine.outcomes import Rejected
from lattice.core.model.nodes.nodes import NodeState
from lattice.ports.quorum.archive import ArchiveError
from lattice.ports.quorum.log import LogError, LogFull
from lattice.ports.quorum.replica import ReplicaStopped
from lattice.ports.site.identity import Unauthenticated
from lattice.wire.text.problems import BadField

STATUS = {
    "invalid": 400,  # the request is malformed or a value is out of bounds; do not repeat it unchanged
    "unauthenticated": 401,  # no token, or one that is invalid or expired
    "forbidden": 403,  # the caller may see this and may not do it
    "not_found": 404,  # does not exist, or the caller may not see it
    "method_not_allowed": 405,  # the path has no such method
    "conflict": 409,  # the present state does not allow it
    "already_exists": 409,  # the name is taken
    "stale": 409,  # a proposal of the servers no longer fits the state; callers see `conflict`
    "too_large": 413,  # the body or message is over its limit
    "unsupported_version": 426,  # the other side speaks a version that this server does not; upgrade one of them
    "quota": 422,  # a limit of the tenant, user, project or vCluster would be exceeded
    "policy": 422,  # refused by the site's submit filter
    "too_many": 429,  # over a rate limit; repeat it after `Retry-After`
    "infeasible": 422,  # no set of nodes of this cluster can ever satisfy it
    "internal": 500,  # an unexpected error; the server's log has the details
    "unavailable": 503,  # cannot be answered now; repeat it under the same request id
    "storage_full": 507,  # a disk of the servers is full and nothing was changed; repeat it later
}


class ErrorView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    code: str
    message: str
    current: str = ""
    requested: str = ""
    limit: str = ""
    hint: str = ""


class ErrorAnswer(Struct, frozen=True):
    error: ErrorView


class ApiError(Exception):
    """A refusal or failure as the caller sees it."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        current: str = "",
        requested: str = "",
        limit: str = "",
        hint: str = "",
        retry_after_s: int = 0,
    ) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.view = ErrorView(code=code, message=message, current=current, requested=requested, limit=limit, hint=hint)

    @property
    def code(self) -> str:
        return self.view.code

    @property
    def status(self) -> int:
        return STATUS[self.view.code]


def not_a_tunnel() -> ApiError:
    """The answer on a wire, or to a request, that cannot carry a connection."""
    return ApiError(
        "invalid", "this operation needs a connection of its own", hint="ask over REST with Upgrade: lattice-tunnel"
    )


def starting() -> ApiError:
    """The answer of a server whose state is not complete yet."""
    return ApiError("unavailable", "the server is starting", hint="try again in a moment")


def refused(rejected: Rejected) -> ApiError:
    """A refusal of the core, in its own words."""
    code = rejected.code if rejected.code in STATUS and rejected.code != "stale" else "conflict"
    return ApiError(
        code,
        rejected.message,
        current=rejected.current,
        requested=rejected.requested,
        limit=rejected.limit,
        hint=_plain(rejected.hint),
    )


def _plain(hint: str) -> str:
    """A hint of the core in the form of all other hints: lower case, no full stop.

    The core's own text cannot change: a refusal is remembered in the replicated state, and servers of
    different versions have to come to the same digest.
    """
    text = hint if hint.endswith("...") else hint.removesuffix(".")
    first = text.partition(" ")[0].rstrip(",:")
    return text[:1].lower() + text[1:] if first[1:].islower() and first not in set(NodeState) else text


def unknown(what: str, name: str, known: Iterable[str]) -> ApiError:
    """The error for a name that does not exist, with those that do."""
    names = sorted(known)
    shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    return ApiError("not_found", f'unknown {what} "{name[:80]}"', hint=f"known: {shown or 'none'}")


def bad_field(problem: BadField) -> ApiError:
    return ApiError("invalid", str(problem), current=problem.current, limit=problem.limit, hint=problem.hint)


def translated(error: Exception) -> ApiError:
    """The answer for any exception that reached the edge; `internal` for unexpected ones."""
    match error:
        case ApiError():
            return error
        case BadField():
            return bad_field(error)
        case Unauthenticated():
            hint = "log in again, or point LATTICE_TOKEN_FILE at a valid token"
            return ApiError("unauthenticated", str(error), hint=hint)
        case LogFull():
            return ApiError(
                "storage_full",
                "the server's disk is full; nothing was changed",
                hint="repeat the request when there is room again",
            )
        case LogError() | ReplicaStopped():
            return ApiError(
                "unavailable",
                "the server cannot write now: its log, or a majority of the servers, cannot be reached; "
                "it is not known whether the request took effect",
                hint="repeat it under the same request_id",
            )
        case ArchiveError():
            return ApiError("unavailable", "finished allocations cannot be read now", hint="try again")
        case _:
            return ApiError("internal", "an unexpected error occurred", hint="the server's log has the details")
