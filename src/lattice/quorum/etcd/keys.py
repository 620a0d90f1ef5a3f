"""The log's layout in etcd: keys, values, and transactions. Nothing here waits."""

import os
import zlib

from lattice.ports.quorum.log import LogCorrupt, LogStart
from lattice.wire.pb import etcd_pb2 as pb

EPOCH = b"lattice/epoch"
HEAD = b"lattice/log/head"
LEADER = b"lattice/leader"
_ENTRIES = b"lattice/log/e/"
_BEHIND_ENTRIES = b"lattice/log/e0"
_DIGITS = 20
FORMAT_VERSION = 1
_ID_BYTES = 16
_HEADER_BYTES = 1 + 4 + _ID_BYTES
# A request may have 1.5 MiB, including keys, compares and the frame.
MAX_PAYLOAD_BYTES = 1_536_000


def entry_key(index: int | None) -> bytes:
    """The key of an entry; None: after all of them."""
    return _BEHIND_ENTRIES if index is None else _ENTRIES + b"%0*d" % (_DIGITS, index)


def index_of(key: bytes) -> int:
    return int(key[len(_ENTRIES) :])


def read_number(value: bytes) -> int:
    try:
        return int(value)
    except ValueError:
        raise LogCorrupt(f"invalid number in the log's keys: {value[:40]!r}") from None


def new_append_id() -> bytes:
    return os.urandom(_ID_BYTES)


def frame(append_id: bytes, payload: bytes) -> bytes:
    checksum = zlib.crc32(payload, zlib.crc32(append_id))
    return bytes([FORMAT_VERSION]) + checksum.to_bytes(4, "big") + append_id + payload


def unframe(index: int, value: bytes) -> tuple[bytes, bytes]:
    """The id of the append and the payload; raises LogCorrupt."""
    if len(value) < _HEADER_BYTES or value[0] != FORMAT_VERSION:
        if value and value[0] > FORMAT_VERSION:
            raise LogCorrupt(
                f"entry {index} has format {value[0]}, but this version of Lattice reads {FORMAT_VERSION}; use the newer version"
            )
        raise LogCorrupt(f"entry {index} is damaged; restore the cluster from a backup")
    append_id, payload = value[5:_HEADER_BYTES], value[_HEADER_BYTES:]
    if zlib.crc32(payload, zlib.crc32(append_id)) != int.from_bytes(value[1:5], "big"):
        raise LogCorrupt(f"entry {index} does not match its checksum; restore the cluster from a backup")
    return append_id, payload


def setup_request(epoch: int, start: LogStart | None = None) -> pb.TxnRequest:
    """Creates the log unless it exists. The first append finds entry 0, or that of a restore, present."""
    index = 0 if start is None else start.index
    entry = b"" if start is None else frame(new_append_id(), start.payload)
    return pb.TxnRequest(
        compare=[_is_absent(EPOCH)],
        success=[_put(EPOCH, b"%d" % epoch), _put(HEAD, b"%d" % index), _put(entry_key(index), entry)],
        failure=[_get(EPOCH)],
    )


def append_request(epoch: int, index: int, value: bytes) -> pb.TxnRequest:
    same_epoch = pb.Compare(result=pb.Compare.EQUAL, target=pb.Compare.VALUE, key=EPOCH, value=b"%d" % epoch)
    return pb.TxnRequest(
        compare=[_is_absent(entry_key(index)), _is_present(entry_key(index - 1)), same_epoch],
        success=[_put(entry_key(index), value), _put(HEAD, b"%d" % index)],
        failure=[_get(entry_key(index)), _get(HEAD), _get(EPOCH)],
    )


def page_request(first: int, limit: int) -> pb.TxnRequest:
    page = pb.RangeRequest(key=entry_key(first), range_end=entry_key(first + limit))
    return pb.TxnRequest(success=[pb.RequestOp(request_range=page), _get(HEAD)])


def trim_request(before: int) -> pb.TxnRequest:
    """Deletes everything below `before`, or nothing if `before` itself is gone.

    It contains no put: those are refused when the database is full.
    """
    gone = pb.DeleteRangeRequest(key=entry_key(0), range_end=entry_key(before))
    return pb.TxnRequest(
        compare=[_is_present(entry_key(before))],
        success=[pb.RequestOp(request_delete_range=gone)],
    )


def _is_absent(key: bytes) -> pb.Compare:
    return pb.Compare(result=pb.Compare.EQUAL, target=pb.Compare.CREATE, key=key, create_revision=0)


def _is_present(key: bytes) -> pb.Compare:
    return pb.Compare(result=pb.Compare.GREATER, target=pb.Compare.CREATE, key=key, create_revision=0)


def _get(key: bytes) -> pb.RequestOp:
    return pb.RequestOp(request_range=pb.RangeRequest(key=key))


def _put(key: bytes, value: bytes) -> pb.RequestOp:
    return pb.RequestOp(request_put=pb.PutRequest(key=key, value=value))
