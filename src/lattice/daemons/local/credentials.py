"""The secret of a local cluster and the tokens signed with it. Only their paths are passed on."""

import os
import pwd
import secrets
import time

import jwt

from lattice.daemons.local.layout import Layout, write_private

LIFETIME_S = 30 * 86400
RENEW_BEFORE_S = 10 * 86400


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


def write_tokens(layout: Layout, secret: bytes) -> None:
    """Fresh tokens: one for the user, with all permissions, and one for the agents."""
    now = int(time.time())
    lifetime = {"iat": now, "exp": now + LIFETIME_S}
    user = current_user()
    person = {"sub": user, "account": user, "tenants": ["default"], "scope": "admin", **lifetime}
    agents = {"sub": "lattice-agent", "kind": "agent", **lifetime}
    for path, claims in ((layout.token, person), (layout.agent_token, agents)):
        write_private(path, jwt.encode(claims, secret, algorithm="HS256").encode() + b"\n")
