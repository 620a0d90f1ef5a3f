"""Signatures of images in OCI registries, as `cosign sign --key` leaves them: under the tag `sha256-DIGEST.sig`, over a text that names the digest."""

import hashlib
from collections.abc import Sequence
from typing import Protocol

from lattice.images.signatures import BadSignature, PublicKey, parse_attached, signer_of_payload
from lattice.ports.site.images import UnusableImage


class Repository(Protocol):
    """What is asked of a repository for its signatures."""

    def find_document(self, tag: str) -> bytes | None: ...

    def small_blob(self, digest: str, most: int) -> bytes: ...


def signer_in(client: Repository, digest: str, label: str, keys: Sequence[PublicKey]) -> str:
    """The key of the site that signed the manifest of this digest; empty = it is not signed, or the site has no keys.

    Raises UnusableImage for signatures that no key of the site made, and RegistryUnavailable.
    """
    document = client.find_document(f"sha256-{digest}.sig") if keys else None
    if document is None:
        return ""
    try:
        for attached in parse_attached(document):
            payload = client.small_blob(attached.digest, attached.size)
            if hashlib.sha256(payload).hexdigest() != attached.digest:
                continue
            if name := signer_of_payload(digest, payload, attached.signature, keys):
                return name
    except BadSignature as error:
        raise UnusableImage(f"cannot use image {label}: {error}", "ask the operators to sign it again") from error
    raise UnusableImage(
        f"cannot use image {label}: its signature was not made by a key of the site, or is for other bytes",
        "ask the operators to sign it again",
    )
