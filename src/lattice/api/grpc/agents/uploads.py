"""Signs requests with which nodes store objects: a node names the object, a server checks and signs.

What a node may store was said by a server when it ordered the run there: the grant is a code over the run's prefix and the node's name
that only servers can make. So any server judges without looking anything up, also long after the run has ended.
"""

import hmac
import re
from typing import NamedTuple

from lattice.ports.quorum.object_store import SignedPut, SigningStore, check_name
from lattice.wire.files.chunks import place_of
from lattice.wire.files.samples import output_prefix, trace_time

MAX_NAME = 512
_STREAM = re.compile(r"(?:stdout|stderr|step-\d{1,9}/journal)")


class Refused(Exception):
    """The node may not store that."""


class Wanted(NamedTuple):
    """An object as its node names it: `prefix/name`."""

    prefix: str
    name: str
    grant: str


class UploadGrants:
    """`secret` is the cluster's own."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def grant(self, prefix: str, node: str) -> str:
        """What lets the node store output below the prefix."""
        return hmac.digest(self._secret, f"upload\0{prefix}\0{node}".encode(), "sha256").hex()

    def check(self, node: str, wanted: Wanted) -> str:
        """The full name of the object. Raises Refused."""
        # Who may store the output of a run may store its samples.
        of_trace = output_prefix(wanted.prefix)
        if not hmac.compare_digest(self.grant(of_trace or wanted.prefix, node).encode(), wanted.grant.encode()):
            raise Refused("this node was not given that run")
        folder, _, last = wanted.name.rpartition("/")
        stream, _, named = folder.rpartition("/")
        if of_trace:
            is_known = folder == node and trace_time(last) is not None
        else:
            is_known = named == node and bool(_STREAM.fullmatch(stream)) and place_of(last) is not None
        if not is_known or len(wanted.name) > MAX_NAME:
            raise Refused("nodes store chunks of output and samples of mode debug, and nothing else")
        return check_name(f"{wanted.prefix}/{wanted.name}")


class UploadSigning:
    """What the agents' sessions ask."""

    def __init__(self, store: SigningStore, grants: UploadGrants) -> None:
        self._store = store
        self._grants = grants

    async def sign(self, node: str, wanted: Wanted) -> SignedPut:
        """Raises Refused or ObjectStoreError."""
        return await self._store.sign_put(self._grants.check(node, wanted))
