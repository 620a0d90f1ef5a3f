"""Sealed values: what a server gives to a browser for a while, and only servers of the same cluster can read or make.

Every server derives the same key from the cluster's secret, so that a browser may come back to any of them.
"""

import base64
import binascii
import hmac
import secrets
from typing import TypeVar

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

T = TypeVar("T", bound=msgspec.Struct)
_NONCE_BYTES = 12


class NotSealed(Exception):
    """The text was not sealed by this cluster, or for another purpose."""


class Sealer:
    """`purpose` keeps a value of one kind from being taken for one of another kind."""

    def __init__(self, secret: bytes) -> None:
        self._cipher = AESGCM(hmac.digest(secret, b"lattice/web/1", "sha256"))

    def seal(self, purpose: str, value: msgspec.Struct) -> str:
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = self._cipher.encrypt(nonce, msgspec.json.encode(value), purpose.encode())
        return base64.urlsafe_b64encode(nonce + sealed).decode().rstrip("=")

    def open(self, purpose: str, text: str, kind: type[T]) -> T:
        """Raises NotSealed."""
        try:
            data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            plain = self._cipher.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], purpose.encode())
            return msgspec.json.decode(plain, type=kind)
        except (binascii.Error, ValueError, InvalidTag, msgspec.MsgspecError):
            raise NotSealed from None
