"""Secrets are referred to, not written down: env://NAME, file://PATH, vault://PATH.

Errors of this boundary::

    SecretError          the reference leads nowhere, or a plain secret stands in a production configuration
"""

import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path

_log = logging.getLogger(__name__)
_MAX_BYTES = 64 * 1024


class SecretError(Exception):
    """A secret that is not available; the text names the key, never the secret."""


def resolve(reference: str, *, key: str, mode: str, vault: Callable[[str], bytes] | None = None) -> bytes:
    """The secret behind the reference, without a trailing line break. `vault` reads what stands behind vault://."""
    scheme, separator, rest = reference.partition("://")
    if not separator:
        return _plain(reference, key, mode)
    match scheme:
        case "file":
            secret = _from_file(Path(rest), key)
        case "env":
            secret = os.environ.get(rest, "").encode()
            if not secret:
                raise SecretError(f"{key}: the environment variable {rest} is not set")
        case "vault":
            secret = _from_vault(rest, key, vault)
        case _:
            raise SecretError(f"{key}: unknown kind of reference {scheme}://; use file://, env:// or vault://")
    return secret


def _from_vault(path: str, key: str, vault: Callable[[str], bytes] | None) -> bytes:
    if vault is None:
        raise SecretError(f"{key}: vault:// needs a vault to ask: set vault.address and vault.token")
    try:
        return vault(path)
    except SecretError as error:
        raise SecretError(f"{key}: {error}") from None


def _plain(reference: str, key: str, mode: str) -> bytes:
    if not reference:
        raise SecretError(f"{key}: empty")
    if mode == "production":
        raise SecretError(f"{key}: a secret may not stand in the file itself in production; use file:// or env://")
    _log.warning("secret written in the configuration itself", extra={"key": key})
    return reference.encode()


def _from_file(path: Path, key: str) -> bytes:
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            secret = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise SecretError(f"{key}: cannot read {path}: {error.strerror or error}") from error
    if mode & 0o077:
        raise SecretError(f"{key}: {path} may be read by others (mode {mode:04o}); chmod 600 it")
    secret = secret.rstrip(b"\r\n")
    if not secret or len(secret) > _MAX_BYTES:
        raise SecretError(f"{key}: {path} is {'empty' if not secret else 'too large for a secret'}")
    return secret
