"""The secret of a local cluster and the tokens signed with it. Only their paths are passed on."""

import os
import pwd
import re
import secrets
import time
from collections.abc import Mapping

from lattice.daemons.local.layout import Layout, write_private
from lattice.wire.text.signed_claims import own_claims, signed_claims

LIFETIME_S = 30 * 86400
RENEW_BEFORE_S = 10 * 86400
MAX_USERS = 100
SCOPES = {"user": "", "operator": "operator", "tenant-admin": "tenant:admin", "admin": "admin", "readonly": "readonly"}
_NAME = re.compile(r"[a-z_][a-z0-9_.-]{0,31}")


def current_user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def ensure_secret(layout: Layout) -> bytes:
    """The secret of this directory, created at its first start and kept."""
    try:
        kept = layout.secret.read_bytes().strip()
    except FileNotFoundError:
        kept = b""
    if len(kept) < 32:
        kept = secrets.token_hex(32).encode()
        write_private(layout.secret, kept + b"\n")
    return kept


def read_users(text: str) -> dict[str, str]:
    """`ada,bob:operator` as scopes by name. Raises ValueError with what is wrong."""
    found: dict[str, str] = {}
    for word in filter(None, (part.strip() for part in text.split(","))):
        name, _, role = word.partition(":")
        if not _NAME.fullmatch(name):
            raise ValueError(f'"{name}" is not a valid user name')
        if name == current_user():
            raise ValueError(f'"{name}" is you, the administrator of this cluster')
        if role and role not in SCOPES:
            raise ValueError(f'"{role}" is not a role; use one of {", ".join(SCOPES)}')
        found[name] = SCOPES.get(role, "")
    if len(found) > MAX_USERS:
        raise ValueError(f"at most {MAX_USERS} users")
    return found


def write_tokens(layout: Layout, secret: bytes, users: Mapping[str, str] | None = None) -> None:
    """Fresh tokens: one for the user, with all permissions, one for the agents, and one for each further user to try roles."""
    now = int(time.time())
    lifetime = {"iat": now, "exp": now + LIFETIME_S}
    user = current_user()
    for name, scope in {**_known_users(layout, secret), **(users or {})}.items():
        # All of them run their work under the account of the user who started the cluster.
        claims = {"sub": name, "account": user, "tenants": ["default"], "scope": scope, **lifetime}
        layout.users.mkdir(mode=0o700, exist_ok=True)
        write_private(layout.users / name, signed_claims(claims, secret).encode() + b"\n")
    person = {"sub": user, "account": user, "tenants": ["default"], "scope": "admin", **lifetime}
    agents = {"sub": "lattice-agent", "kind": "agent", **lifetime}
    movers = {"sub": "lattice-mover", "scope": "data:move", **lifetime}
    for path, claims in ((layout.token, person), (layout.agent_token, agents), (layout.mover_token, movers)):
        write_private(path, signed_claims(claims, secret).encode() + b"\n")


def _known_users(layout: Layout, secret: bytes) -> dict[str, str]:
    """Users of earlier starts, with their scopes; files that this cluster did not write are left alone."""
    known: dict[str, str] = {}
    for path in sorted(layout.users.glob("*")) if layout.users.is_dir() else ():
        try:
            claims = own_claims(path.read_text().strip(), secret)
        except (OSError, ValueError):
            continue
        if claims.get("sub") == path.name:
            known[path.name] = str(claims.get("scope", ""))
    return known
