"""Signatures of images: over the sha256 digest, so that who knows the digest need not read the image again.

Beside `X.squashfs` lies `X.squashfs.sig`: one signature in base64 per line. ECDSA signs the digest as such, which is what
`openssl dgst -sha256 -sign KEY X.squashfs` and `cosign sign-blob` make; Ed25519 signs its 32 bytes.
In OCI registries a text that names the digest of the manifest is signed, as `cosign sign` does.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

SUFFIX = ".sig"
ANNOTATION = "dev.cosignproject.cosign/signature"
MAX_FILE = 64 << 10
MAX_SIGNATURES = 16
KINDS = "Ed25519 or ECDSA"


class BadKey(ValueError):
    """What cannot be used as a key; the text is a sentence."""


class BadSignature(ValueError):
    """A signature that no key of the site made; the text is a sentence."""


class PublicKey(NamedTuple):
    """A key of the site, by the name of its file."""

    name: str
    key: "Ed25519PublicKey | EllipticCurvePublicKey"


def read_public_key(name: str, pem: bytes) -> PublicKey:
    """Raises BadKey."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        raise BadKey(f"{name} is not a public key in PEM form") from None
    if not isinstance(key, Ed25519PublicKey | EllipticCurvePublicKey):
        raise BadKey(f"{name} is not a key for {KINDS}")
    return PublicKey(name, key)


def signer_of(digest: str, content: bytes, keys: Iterable[PublicKey]) -> str:
    """The name of the key that signed the digest, given the content of the file beside the image. Raises BadSignature."""
    signatures = _signatures(content)
    for each in keys:
        if any(_verifies(each, bytes.fromhex(digest), signature) for signature in signatures):
            return each.name
    raise BadSignature("its signature was not made by a key of the site, or is for other bytes")


class Attached(NamedTuple):
    """A signature in a registry: the text that it is for, by digest and size, and the signature in base64."""

    digest: str
    size: int
    signature: bytes


def parse_attached(document: bytes) -> tuple[Attached, ...]:
    """The signatures that a manifest of cosign names. Raises BadSignature."""
    try:
        layers = json.loads(document)["layers"]
        found = [
            Attached(
                str(each["digest"]).removeprefix("sha256:"),
                min(int(each["size"]), MAX_FILE),
                str(each["annotations"][ANNOTATION]).encode(),
            )
            for each in layers[:MAX_SIGNATURES]
        ]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BadSignature("what its registry has as its signature is not understood") from None
    if not all(re.fullmatch(r"[0-9a-f]{64}", each.digest) for each in found):
        raise BadSignature("what its registry has as its signature is not understood")
    return tuple(found)


def signer_of_payload(digest: str, payload: bytes, signature: bytes, keys: Iterable[PublicKey]) -> str:
    """The name of the key that signed the text, if the text is for the manifest of this digest; else empty."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.hashes import SHA256

    try:
        named = json.loads(payload)["critical"]["image"]["docker-manifest-digest"]
        made = base64.b64decode(signature, validate=True)
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    if named != f"sha256:{digest}":
        return ""
    for each in keys:
        try:
            if isinstance(each.key, Ed25519PublicKey):
                each.key.verify(made, payload)
            else:
                each.key.verify(made, payload, ECDSA(SHA256()))
        except InvalidSignature:
            continue
        return each.name
    return ""


def sign(digest: str, pem: bytes) -> bytes:
    """The content of the file beside the image. Raises BadKey."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem, None)
    except TypeError:
        raise BadKey("the key is encrypted; decrypt it first: openssl pkey -in KEY -out PLAIN") from None
    except (ValueError, UnsupportedAlgorithm):
        raise BadKey("this is not a private key in PEM form") from None
    if isinstance(key, Ed25519PrivateKey):
        made = key.sign(bytes.fromhex(digest))
    elif isinstance(key, EllipticCurvePrivateKey):
        made = key.sign(bytes.fromhex(digest), ECDSA(Prehashed(SHA256())))
    else:
        raise BadKey(f"this is not a key for {KINDS}")
    return base64.b64encode(made) + b"\n"


def _signatures(content: bytes) -> list[bytes]:
    lines = [line.strip() for line in content.splitlines() if line.strip()]
    try:
        found = [base64.b64decode(line, validate=True) for line in lines[:MAX_SIGNATURES]]
    except binascii.Error:
        found = []
    if not found:
        raise BadSignature(f"its {SUFFIX} file holds no signature in base64")
    return found


def _verifies(key: PublicKey, digest: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
    from cryptography.hazmat.primitives.hashes import SHA256

    try:
        if isinstance(key.key, Ed25519PublicKey):
            key.key.verify(signature, digest)
        else:
            key.key.verify(signature, digest, ECDSA(Prehashed(SHA256())))
    except InvalidSignature:
        return False
    return True
