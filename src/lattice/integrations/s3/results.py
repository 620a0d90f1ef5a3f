"""Buckets that results of work go to, by requests that are signed for nodes, which hold no key."""

from collections.abc import Mapping

from lattice.integrations.s3.bucket import Bucket
from lattice.integrations.s3.signing import signed_url
from lattice.ports.quorum.object_store import ObjectStoreError, SignedPut


class ResultBuckets:
    """Implements `ResultSigner`."""

    def __init__(self, buckets: Mapping[str, Bucket]) -> None:
        self._buckets = buckets

    def sign(self, bucket: str, name: str, method: str, query: Mapping[str, str]) -> SignedPut:
        found = self._buckets.get(bucket)
        if found is None:
            raise ObjectStoreError(f"results may not go to s3://{bucket}")
        return SignedPut(signed_url(found, method, name, query), {}, found.authorities.decode())
