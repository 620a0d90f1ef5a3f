"""Whether the caller of a long stream may still have it: the token's own end, and every few minutes everything else again."""

from lattice.api.access.admission import authenticate
from lattice.api.auth.rbac import may_at_all
from lattice.api.errors import ApiError
from lattice.api.operations.operation import Operation
from lattice.api.services import Services
from lattice.ports.site.identity import Identity


class StreamAuthorization:
    """One stream's caller, as admitted when it was opened."""

    def __init__(self, services: Services, operation: Operation, authorization: str, identity: Identity) -> None:
        self._services = services
        self._operation = operation
        self._authorization = authorization
        self._identity = identity
        self._due_ms = services.wall_ms() + services.revalidate_every_s * 1000

    def left_s(self) -> float:
        """Seconds until `confirm` has something to do."""
        end_ms = self._identity.expires_at * 1000
        due_ms = min(self._due_ms, end_ms) if end_ms else self._due_ms
        return max(0.0, (due_ms - self._services.wall_ms()) / 1000)

    async def confirm(self) -> None:
        """Raises ApiError or Unauthenticated when the stream has to end."""
        now_ms = self._services.wall_ms()
        if self._identity.expires_at and self._identity.expires_at * 1000 <= now_ms:
            raise ApiError("unauthenticated", "the token has expired", hint="log in again")
        if now_ms < self._due_ms:
            return
        self._due_ms = now_ms + self._services.revalidate_every_s * 1000
        identity = await authenticate(self._services, self._authorization, anew=True)
        if _powers(identity) != _powers(self._identity) or not may_at_all(identity, self._operation.permission):
            raise ApiError(
                "unauthenticated", "what you may do has changed since the stream was opened", hint="open it again"
            )


def _powers(identity: Identity) -> tuple[object, ...]:
    return identity.roles, identity.tenants, identity.admin_of
