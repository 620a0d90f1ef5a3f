"""The key by which a server seals the audit chain: Ed25519, in a file that only the server may read."""

import os
import stat
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from lattice.core.model.site.audit import AuditKey, key_id
from lattice.ports.site.audit import AuditError

_RAW = serialization.Encoding.Raw


class Signer:
    """Signs with the key of a file, which is made when it is not there. Raises AuditError."""

    def __init__(self, path: Path, server: str) -> None:
        self._path = path
        self._server = server
        self._private = self._load() if path.exists() else self._make()

    @property
    def public(self) -> str:
        return self._private.public_key().public_bytes(_RAW, serialization.PublicFormat.Raw).hex()

    @property
    def id(self) -> str:
        return key_id(self.public)

    @property
    def key(self) -> AuditKey:
        return AuditKey(id=self.id, public=self.public, server=self._server)

    def sign(self, message: bytes) -> str:
        return self._private.sign(message).hex()

    def renew(self) -> None:
        """A new key in place of the old one, which is forgotten."""
        self._private = self._make()

    def _load(self) -> Ed25519PrivateKey:
        try:
            mode = stat.S_IMODE(self._path.stat().st_mode)
            data = self._path.read_bytes()
            private = serialization.load_pem_private_key(data, password=None)
        except (OSError, ValueError) as error:
            raise AuditError(f"the audit key {self._path} cannot be read: {error}") from None
        if mode & 0o077:
            raise AuditError(f"the audit key {self._path} may be read by others (mode {mode:04o}); chmod 600 it")
        if not isinstance(private, Ed25519PrivateKey):
            raise AuditError(f"the audit key {self._path} is not of the kind Ed25519")
        return private

    def _make(self) -> Ed25519PrivateKey:
        private = Ed25519PrivateKey.generate()
        data = private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        draft = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(fd)
            draft.replace(self._path)
        except OSError as error:
            raise AuditError(f"the audit key {self._path} cannot be written: {error.strerror or error}") from error
        return private


def is_signed(public: str, message: bytes, signature: str) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(bytes.fromhex(signature), message)
    except (InvalidSignature, ValueError):
        return False
    return True
