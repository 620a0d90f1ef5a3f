"""Where objects of an S3 service are, and the key that opens it."""

from msgspec import Struct


class Bucket(Struct, frozen=True, kw_only=True):
    """Where the objects are, and the key that opens it."""

    name: str
    endpoint: str
    region: str
    key_id: str
    key_secret: str
    timeout_s: float = 60.0
    authorities: bytes = b""  # PEM, added to those of the system

    def __repr__(self) -> str:
        return f"Bucket({self.name!r} at {self.endpoint!r})"
