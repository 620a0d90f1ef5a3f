"""The bytes behind a registry's URL, for the cache of a node."""

from collections.abc import Iterator

from lattice.images.oci import MANIFEST_TYPES
from lattice.integrations.registry.transport import HttpFailed, Transport, host_of
from lattice.ports.nodes.blobs import BlobRefused, BlobUnavailable

# Also for what is stored as a blob: registries choose by it only where they keep documents.
ACCEPT = ", ".join((*sorted(MANIFEST_TYPES), "*/*"))


class HttpBlobs:
    """Implements `BlobSource`."""

    def __init__(self, transport: Transport, accept: str = ACCEPT) -> None:
        self._transport = transport
        self._accept = accept

    def read(self, url: str, offset: int = 0) -> Iterator[bytes]:
        headers = {"Accept": self._accept} | ({"Range": f"bytes={offset}-"} if offset else {})
        try:
            with self._transport.get(url, headers) as answer:
                if answer.status in (404, 410):
                    raise BlobRefused(f"the registry {host_of(url)} does not have it any more")
                if answer.status in (401, 403):
                    raise BlobUnavailable(f"the registry {host_of(url)} does not let this node read it")
                if answer.status not in (200, 206):
                    raise BlobUnavailable(f"the registry {host_of(url)} answered with HTTP {answer.status}")
                skipped = offset if answer.status == 200 else 0  # one that knows no ranges begins at the beginning
                for piece in answer.pieces():
                    if skipped:
                        piece, skipped = piece[skipped:], max(0, skipped - len(piece))
                    if piece:
                        yield piece
        except HttpFailed as error:
            raise BlobUnavailable(f"the registry {error}") from error
