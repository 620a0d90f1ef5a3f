"""How to log in: what `GET /api/v1/auth/discovery` tells everybody who asks."""

from msgspec import Struct


class Discovery(Struct, frozen=True, kw_only=True):
    """`kind` is hmac where only tokens of the server itself are known; `token` is which of the provider's tokens to show."""

    kind: str = "hmac"
    issuer: str | None = None
    client_id: str | None = None
    idp_url: str | None = None
    scopes: tuple[str, ...] = ()
    token: str | None = None
    client_secret: str | None = None
