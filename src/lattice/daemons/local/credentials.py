"""The secret of a local cluster and the tokens made from it. Only their paths are ever handed on."""

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
    """The secret of this folder, made at its first start and kept."""
    try:
        kept = layout.secret.read_bytes().strip()
    except FileNotFoundError:
        kept = b""
    if len(kept) < 32:
        kept = secrets.token_hex(32).encode()
        write_private(layout.secret, kept + b"\n")
    return kept


def write_tokens(layout: Layout, secret: bytes) -> None:
    """Fresh tokens: the user's, who may do everything here, and the agents'."""
    now = int(time.time())
    lifetime = {"iat": now, "exp": now + LIFETIME_S}
    user = current_user()
    person = {"sub": user, "account": user, "tenants": ["default"], "scope": "admin", **lifetime}
    agents = {"sub": "lattice-agent", "kind": "agent", **lifetime}
    for path, claims in ((layout.token, person), (layout.agent_token, agents)):
        write_private(path, jwt.encode(claims, secret, algorithm="HS256").encode() + b"\n")
