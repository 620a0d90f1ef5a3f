"""What the claims of a verified token say: user, account, tenants, roles.

Every claim is checked, for a signature proves who wrote them and not that they make sense.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lattice.api.auth.rbac import roles_of
from lattice.ports.site.identity import Identity, Kind, Unauthenticated

INVALID = "the token is not valid"
MAX_NAME = 128
MAX_TENANTS = 1000
ROLE_CLAIMS = ("pact_role", "lattice_role")
_KINDS: Mapping[str, Kind] = {"user": "user", "agent": "agent", "allocation": "allocation"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimNames:
    """The claims in which a provider names a user. Empty `account`: the account has the user's name."""

    user: str = "sub"
    account: str = ""
    tenants: str = "tenants"
    default_tenants: tuple[str, ...] = ()
    takes_scopes: bool = True  # False: roles come from the role claims alone


def is_moment(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e11


def is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_NAME and value.isprintable() and not value.isspace()


def own_identity(claims: Mapping[str, Any]) -> Identity:
    """The caller behind a token that a server of this cluster signed. Raises Unauthenticated."""
    user, expires_at = claims["sub"], claims["exp"]
    account = claims.get("account") or user
    kind = _KINDS.get(str(claims.get("kind", "user")))
    allocation, run, node = claims.get("allocation"), claims.get("run"), claims.get("node")
    if kind == "user" and allocation is not None:
        kind = "allocation"
    sound = (
        is_name(user)
        and is_name(account)
        and is_moment(expires_at)
        and isinstance(claims.get("scope", ""), str)
        and (allocation is None or (type(allocation) is int and allocation > 0))
        and (run is None or (type(run) is int and run > 0))
        and (node is None or is_name(node))
    )
    if not sound or kind is None:
        raise Unauthenticated(INVALID)
    return Identity(
        user=user,
        account=account,
        tenants=_names(claims.get("tenants", [])),
        roles=tuple(roles_of(_scopes(claims), kind, _role_claims(claims))),
        expires_at=int(expires_at),
        issued_at=_issued_at(claims),
        kind=kind,
        allocation=allocation,
        run=run,
        node=node,
    )


def foreign_identity(claims: Mapping[str, Any], names: ClaimNames) -> Identity:
    """The caller behind a token of an identity provider. It names people and services, never allocations or single nodes."""
    user, expires_at = claims.get(names.user), claims.get("exp")
    if not is_moment(expires_at):
        raise Unauthenticated(INVALID)
    if not is_name(user):
        raise Unauthenticated(f'the token has no usable claim "{names.user}", which names the user')
    account = claims.get(names.account) if names.account else user
    if not is_name(account):
        raise Unauthenticated(f'the token has no usable claim "{names.account}", which names the account')
    words = _scopes(claims) if names.takes_scopes else []
    roles = _role_claims(claims)
    kind: Kind = "agent" if "agent" in words or "agent" in roles else "user"
    return Identity(
        user=str(user),
        account=str(account),
        tenants=_names(_split(claims.get(names.tenants, []))) or names.default_tenants,
        roles=tuple(roles_of(words, kind, roles)),
        expires_at=int(expires_at or 0),
        issued_at=_issued_at(claims),
        kind=kind,
    )


def _issued_at(claims: Mapping[str, Any]) -> int:
    said = claims.get("iat", 0)
    return int(said) if is_moment(said) else 0


def _scopes(claims: Mapping[str, Any]) -> list[str]:
    """The words of `scope`; some providers write a list, or call it `scp`."""
    return _words(claims.get("scope", claims.get("scp", "")))


def _role_claims(claims: Mapping[str, Any]) -> list[str]:
    return [word for name in ROLE_CLAIMS for word in _words(claims.get(name, ""))]


def _words(value: object) -> list[str]:
    if isinstance(value, str):
        return value.split()
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return list(value)
    raise Unauthenticated(INVALID)


def _split(value: object) -> object:
    """Some providers write a text with spaces or commas where others write a list."""
    return value.replace(",", " ").split() if isinstance(value, str) else value


def _names(names: object) -> tuple[str, ...]:
    if not isinstance(names, list) or len(names) > MAX_TENANTS or not all(is_name(name) for name in names):
        raise Unauthenticated(INVALID)
    return tuple(dict.fromkeys(names))
