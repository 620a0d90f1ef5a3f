"""The cold part of an allocation: what a node is to run, as the log carries it. The core keeps the bytes and never looks at them."""

import msgspec
import zstandard
from msgspec import Struct

from lattice.ports.nodes.data import DataOrder, StageOutOrder
from lattice.ports.nodes.images import ContainerOrder, ImageOrder
from lattice.ports.nodes.probes import ProbeOrder
from lattice.wire.services.services import NO_DRAIN_S
from lattice.wire.work.run_files import OutputFiles

MAX_PAYLOAD_BYTES = 1 << 20
MAX_WORK_BYTES = 16 << 20

# Below this size compression costs more time than the bytes are worth.
_COMPRESS_FROM = 512
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class Work(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an allocation runs: everything the core never looks at. Either `argv` or `script`."""

    argv: tuple[str, ...] = ()
    script: str = ""
    script_args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = ""
    submit_dir: str = ""
    summary: bool = False  # a last line on stderr: how it ended, what it used
    output: OutputFiles | None = None
    signal: str = ""  # before the limit: [B:]USR1@60
    umask: int | None = None  # of the submitter; None = 022
    images: tuple[ImageOrder, ...] = ()
    views: tuple[str, ...] = ()
    container: ContainerOrder | None = None
    scratch_mb: int = 0
    no_defaults: bool = False
    data: tuple[DataOrder, ...] = ()  # as it was asked for; which copy is used is in the allocation
    stage_out: tuple[StageOutOrder, ...] = ()
    drain_s: float = NO_DRAIN_S  # of a service; this very number is not written
    probes: tuple[ProbeOrder, ...] = ()
    memory_policy: str = ""


class _Images(Struct, frozen=True):
    """Of `Work`, what says which images it brings."""

    images: tuple[ImageOrder, ...] = ()
    container: ContainerOrder | None = None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Work)
_images_decoder = msgspec.msgpack.Decoder(_Images)
_compressor = zstandard.ZstdCompressor(level=3)


def encode_work(work: Work) -> bytes:
    """The payload of a submission: msgpack, compressed with zstd unless it is tiny."""
    plain = _encoder.encode(work)
    return plain if len(plain) < _COMPRESS_FROM else _compressor.compress(plain)


def decode_work(payload: bytes) -> Work:
    """The work behind a payload; an empty payload gives empty work. Raises ValueError when it is damaged."""
    return _decoder.decode(_unpacked(payload)) if payload else Work()


def images_of(payload: bytes) -> tuple[ImageOrder, ...]:
    """The images that the work behind a payload brings, and nothing else of it. Raises ValueError when it is damaged."""
    if not payload:
        return ()
    brought = _images_decoder.decode(_unpacked(payload))
    return brought.images if brought.container is None else (*brought.images, brought.container.image)


def _unpacked(payload: bytes) -> bytes:
    if not payload.startswith(_ZSTD_MAGIC):
        return payload
    try:
        return zstandard.decompress(payload, max_output_size=MAX_WORK_BYTES)
    except zstandard.ZstdError as error:
        raise ValueError(f"payload cannot be unpacked: {error}") from None
