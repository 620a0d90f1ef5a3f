"""Signs requests with which nodes store objects: a node names the object, a server checks and signs.

What a node may store was said by a server when it ordered the run there: the grant is a code over the run's prefix and the node's name
that only servers can make. So any server judges without looking anything up, also long after the run has ended.
"""

import hmac
import re
from collections.abc import Mapping
from typing import NamedTuple, Protocol
from urllib.parse import parse_qsl

from lattice.ports.nodes.checkpoints import READS, WRITES
from lattice.ports.nodes.data import BUCKET
from lattice.ports.quorum.object_store import SignedPut, SigningStore, check_name
from lattice.wire.files.chunks import place_of
from lattice.wire.files.samples import output_prefix, trace_time

MAX_NAME = 512
MAX_RESULT = 1024  # bytes of a name, as S3 has it
_ID = r"[A-Za-z0-9._~+/=-]{1,512}"
_RESULT_REQUESTS = (
    ("", re.compile("")),
    ("POST", re.compile("uploads")),
    ("PUT", re.compile(rf"partNumber=\d{{1,5}}&uploadId={_ID}")),
    ("POST", re.compile(rf"uploadId={_ID}")),
    ("DELETE", re.compile(rf"uploadId={_ID}")),
)
_READ_REQUESTS = (("GET", re.compile("")),)
_STREAM = re.compile(r"(?:stdout|stderr|step-\d{1,9}/journal)")


class Refused(Exception):
    """The node may not store that."""


class Wanted(NamedTuple):
    """An object as its node names it: `prefix/name`. `method` and `query` belong to results alone."""

    prefix: str
    name: str
    grant: str
    method: str = ""
    query: str = ""


class UploadGrants:
    """`secret` is the cluster's own."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def grant(self, prefix: str, node: str) -> str:
        """What lets the node store output below the prefix."""
        return hmac.digest(self._secret, f"upload\0{prefix}\0{node}".encode(), "sha256").hex()

    def check(self, node: str, wanted: Wanted) -> str:
        """The full name of the object. Raises Refused."""
        if wanted.prefix.startswith(BUCKET):
            return self._check_result(node, wanted)
        if wanted.prefix.startswith((WRITES, READS)):
            return self._check_checkpoint(node, wanted)
        if wanted.method or wanted.query:
            raise Refused("nodes store whole objects")
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
            raise Refused(
                "nodes store chunks of output, samples of mode debug and records of what was touched, and nothing else"
            )
        return check_name(f"{wanted.prefix}/{wanted.name}")

    def _check_checkpoint(self, node: str, wanted: Wanted) -> str:
        """Who writes a copy does not read it, and the other way round: each is a grant of its own."""
        if not hmac.compare_digest(self.grant(wanted.prefix, node).encode(), wanted.grant.encode()):
            raise Refused("this node was not given that checkpoint")
        way, _, objects = wanted.prefix.partition("://")
        name = f"{objects}/{wanted.name}"
        if not wanted.name.isprintable() or len(name.encode("utf-8", "replace")) > MAX_RESULT:
            raise Refused(f"the name of a file in a checkpoint has at most {MAX_RESULT} bytes, with its directories")
        permitted = _RESULT_REQUESTS if f"{way}://" == WRITES else _READ_REQUESTS
        if not any(wanted.method == method and form.fullmatch(wanted.query) for method, form in permitted):
            raise Refused("that is not what this node was given the checkpoint for")
        return check_name(name)

    def _check_result(self, node: str, wanted: Wanted) -> str:
        """The full name of a result, without its bucket."""
        if not hmac.compare_digest(self.grant(wanted.prefix, node).encode(), wanted.grant.encode()):
            raise Refused("this node was not given that run")
        parts = wanted.name.split("/") if wanted.name else []
        if any(part in ("", ".", "..") for part in parts) or not wanted.name.isprintable():
            raise Refused("that is no name of a result")
        name = "/".join((*wanted.prefix.removeprefix(BUCKET).split("/")[1:], *parts))
        if not 0 < len(name.encode("utf-8", "replace")) <= MAX_RESULT:
            raise Refused(f"the name of a result in a bucket has from 1 to {MAX_RESULT} bytes")
        if not any(wanted.method == method and form.fullmatch(wanted.query) for method, form in _RESULT_REQUESTS):
            raise Refused("nodes upload results, and nothing else")
        return name


class ResultSigner(Protocol):
    """The buckets that results may go to."""

    def sign(self, bucket: str, name: str, method: str, query: Mapping[str, str]) -> SignedPut:
        """Raises ObjectStoreError where there is no such bucket."""
        ...


class UploadSigning:
    """What the agents' sessions ask."""

    def __init__(self, store: SigningStore | None, grants: UploadGrants, results: ResultSigner | None = None) -> None:
        self._store = store
        self._grants = grants
        self._results = results

    @property
    def takes_output(self) -> bool:
        return self._store is not None

    async def sign(self, node: str, wanted: Wanted) -> SignedPut:
        """Raises Refused or ObjectStoreError."""
        name = self._grants.check(node, wanted)
        if wanted.prefix.startswith(BUCKET):
            if self._results is None:
                raise Refused("this server has no bucket for results")
            query = dict(parse_qsl(wanted.query, keep_blank_values=True))
            bucket = wanted.prefix.removeprefix(BUCKET).partition("/")[0]
            return self._results.sign(bucket, name, wanted.method or "PUT", query)
        if self._store is None:
            raise Refused("this server signs no requests to the object store")
        if wanted.prefix.startswith((WRITES, READS)):
            return await self._store.sign(
                name, wanted.method or "PUT", dict(parse_qsl(wanted.query, keep_blank_values=True))
            )
        return await self._store.sign_put(name)
