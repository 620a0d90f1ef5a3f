"""Claims signed with a shared secret, in the form of a JSON Web Token (HS256).

By hand, because signing and checking what one wrote oneself needs no more than this, and the library that reads
everybody's tokens takes longer to import than a cluster needs to stop.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any

import msgspec

ALGORITHM = "HS256"


def signed_claims(claims: Mapping[str, object], secret: bytes) -> str:
    signed = _HEADER + _text(msgspec.json.encode(claims))
    return (signed + b"." + _text(hmac.digest(secret, signed, "sha256"))).decode()


def own_claims(token: str, secret: bytes) -> dict[str, Any]:
    """The claims of a token that was signed with this secret, expired or not. Raises ValueError for any other."""
    signed, _, signature = token.encode().rpartition(b".")
    if not hmac.compare_digest(signature, _text(hmac.digest(secret, signed, "sha256"))):
        raise ValueError("signed by somebody else")
    body = signed.partition(b".")[2]
    return msgspec.json.decode(urlsafe_b64decode(body + b"=" * (-len(body) % 4)), type=dict[str, Any])


def _text(data: bytes) -> bytes:
    return urlsafe_b64encode(data).rstrip(b"=")


_HEADER = _text(msgspec.json.encode({"alg": ALGORITHM, "typ": "JWT"})) + b"."
