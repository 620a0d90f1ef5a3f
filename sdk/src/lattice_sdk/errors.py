"""What can go wrong between a program and a cluster.

LatticeError
├── NotConfigured         no cluster is named anywhere, or a configuration file is damaged
├── NoToken               nothing to identify oneself with was found or could be read
├── LoginFailed           the identity provider gave no token
├── Unreachable           no server answered within the time allowed
├── BadAnswer             something answered, but not as a Lattice server does
├── WaitTimedOut          the time given to `wait` is over, the allocation is not
└── ApiError              a server said no
    ├── Invalid           the request cannot be understood (400, 413)
    ├── NotAuthenticated  the token is missing, expired or not valid (401)
    ├── Forbidden         the token's owner may not do this (403)
    ├── NotFound          there is no such thing (404)
    ├── Conflict          its present state does not allow it (409)
    ├── Refused           a quota or the machine does not allow it (422)
    ├── WrongVersion      this library and the server have no protocol version in common (426)
    ├── TooMany           more requests or streams than one user may have (429)
    └── ServerFault       the server could not do it (5xx)
        └── Unavailable   and asks to be asked again (503, 507)
"""


class LatticeError(Exception):
    """Root of every error that this library raises on purpose; `status_code` is 0 where no server answered."""

    @property
    def status_code(self) -> int:
        return int(getattr(self, "status", 0))


class NotConfigured(LatticeError):
    """No cluster is configured and none runs on this machine, or what is configured cannot be read."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        if hint:
            self.add_note(f"hint: {hint}")


class NoToken(LatticeError):
    """No token was given, or its file cannot be read."""


class LoginFailed(LatticeError):
    """The login failed; the text says what the identity provider or the user did."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Unreachable(LatticeError):
    """None of the endpoints answered within the time allowed for trying."""

    def __init__(self, endpoints: tuple[str, ...], cause: str, tried_for_s: float) -> None:
        self.endpoints = endpoints
        self.cause = cause
        self.tried_for_s = tried_for_s
        super().__init__(f"cannot reach {', '.join(endpoints)}: {cause}")


class BadAnswer(LatticeError):
    """The answer is not one that a Lattice server gives; the address may belong to another service."""


class WaitTimedOut(LatticeError):
    """An allocation had not ended when the time given for waiting was over."""


class ApiError(LatticeError):
    """A refusal, in the words of the server; `code` is stable, the texts are for people."""

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        status: int = 0,
        current: str = "",
        requested: str = "",
        limit: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status
        self.current = current
        self.requested = requested
        self.limit = limit
        self.hint = hint
        for label in ("current", "requested", "limit", "hint"):  # shown by tracebacks and notebooks
            if text := getattr(self, label):
                self.add_note(f"{label}: {text}")


class Invalid(ApiError):
    """The request is malformed, incomplete or too large."""


class NotAuthenticated(ApiError):
    """The server does not accept the token."""


class Forbidden(ApiError):
    """The server knows the caller and does not permit this."""


class NotFound(ApiError):
    """Nothing has that name."""


class Conflict(ApiError):
    """The present state of the thing does not allow the change."""


class Refused(ApiError):
    """A quota, a policy or the size of the machine does not allow the request."""


class WrongVersion(ApiError):
    """The server speaks other versions of the protocol than this library; the hint says which of the two to upgrade."""


class TooMany(ApiError):
    """More requests, or more concurrent streams, than the server allows one user; retry later."""


class ServerFault(ApiError):
    """The server failed."""


class Unavailable(ServerFault):
    """The server cannot do it at this moment; asking again is right."""


# Names under which some of these are known as well.
LatticeNotFoundError = NotFound
LatticeAuthError = NotAuthenticated

_BY_STATUS: dict[int, type[ApiError]] = {
    400: Invalid,
    401: NotAuthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: Invalid,
    422: Refused,
    426: WrongVersion,
    429: TooMany,
    503: Unavailable,
    507: Unavailable,
}


def error_class(status: int) -> type[ApiError]:
    """The class for a status code of 400 or more."""
    return _BY_STATUS.get(status, ServerFault if status >= 500 else ApiError)
