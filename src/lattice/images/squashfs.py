"""Reads one small file out of a squashfs image without mounting it: its metadata, before anybody trusts the rest.

The image may have been made to harm its reader, so every size is bounded before anything of it is read, and the format is
followed by this code alone, not by the kernel or a library. Squashfs 4.0 as the kernel documents it (Documentation/filesystems/squashfs).
"""

import lzma
import struct
import zlib
from collections.abc import Callable
from typing import NamedTuple

MAGIC = b"hsqs"
MAX_FILE = 1 << 20
MAX_DIRECTORY = 1 << 20
MAX_BLOCK = 1 << 20
METADATA_BLOCK = 8192
NO_FRAGMENT = 0xFFFFFFFF
DATA_PLAIN = 1 << 24
METADATA_PLAIN = 1 << 15

_SUPERBLOCK = struct.Struct("<4sIIIIHHHHHHQQQQQQQQ")
_INODE = struct.Struct("<HHHHII")
_DIRECTORY, _FILE, _LONG_DIRECTORY, _LONG_FILE = 1, 2, 8, 9
_COMPRESSORS = {1: "gzip", 2: "lzma", 3: "lzo", 4: "xz", 5: "lz4", 6: "zstd"}

ReadAt = Callable[[int, int], bytes]


class BadImage(Exception):
    """Not an image that can be read; the text says what is wrong."""


def is_plain_text(text: str) -> bool:
    """Whether a process and a message can carry it: JSON knows characters that UTF-8 has no bytes for."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


class _Inode(NamedTuple):
    kind: int
    start: int  # of the directory's listing, or of the file's blocks
    size: int
    offset: int  # within the block of the listing, or within the fragment
    fragment: int = NO_FRAGMENT
    blocks: tuple[int, ...] = ()


class SquashfsReader:
    """`read_at(offset, size)` gives bytes of the image, fewer at its end."""

    def __init__(self, read_at: ReadAt) -> None:
        self._read_at = read_at
        head = read_at(0, _SUPERBLOCK.size)
        if len(head) < _SUPERBLOCK.size or not head.startswith(MAGIC):
            raise BadImage("it is not a squashfs image")
        (
            _,
            _,
            _,
            self._block_size,
            self._fragments,
            self._compressor,
            _,
            _,
            _,
            major,
            _,
            self._root,
            self.size,
            _,
            _,
        ) = _SUPERBLOCK.unpack(head)[:15]
        self._inodes, self._directories, self._fragment_table = _SUPERBLOCK.unpack(head)[15:18]
        if major != 4 or not 4096 <= self._block_size <= MAX_BLOCK:
            raise BadImage("it is a squashfs image of an unknown version")

    def read(self, path: str, most: int = MAX_FILE) -> bytes | None:
        """The content of a plain file; None when there is none. Raises BadImage."""
        try:
            inode = self._inode(self._root)
            for name in path.strip("/").split("/"):
                found = self._entry(inode, name.encode())
                if found is None:
                    return None
                inode = self._inode(found)
            return self._content(inode, most) if inode.kind in (_FILE, _LONG_FILE) else None
        except struct.error:
            raise BadImage("the image ends too early") from None

    def _inode(self, reference: int) -> _Inode:
        # A file of `MAX_FILE` bytes has at most 256 blocks of 4 KiB, so this much always suffices.
        data = self._metadata(self._inodes + (reference >> 16), reference & 0xFFFF, 2048, exact=False)
        kind = _INODE.unpack_from(data)[0]
        at = _INODE.size
        if kind == _DIRECTORY:
            start, _, size, offset, _ = struct.unpack_from("<IIHHI", data, at)
            return _Inode(kind, start, size, offset)
        if kind == _LONG_DIRECTORY:
            _, size, start, _, _, offset, _ = struct.unpack_from("<IIIIHHI", data, at)
            return _Inode(kind, start, size, offset)
        if kind == _FILE:
            start, fragment, offset, size = struct.unpack_from("<IIII", data, at)
            at += 16
        elif kind == _LONG_FILE:
            start, size, _, _, fragment, offset, _ = struct.unpack_from("<QQQIIII", data, at)
            at += 40
        else:
            return _Inode(kind, 0, 0, 0)
        if size > MAX_FILE:
            return _Inode(kind, start, size, offset)
        count = size // self._block_size if fragment != NO_FRAGMENT else -(-size // self._block_size)
        return _Inode(kind, start, size, offset, fragment, struct.unpack_from(f"<{count}I", data, at))

    def _entry(self, folder: _Inode, wanted: bytes) -> int | None:
        if folder.kind not in (_DIRECTORY, _LONG_DIRECTORY) or folder.size <= 3:
            return None
        if folder.size > MAX_DIRECTORY:
            raise BadImage("a directory of the image is too large")
        listing = self._metadata(self._directories + folder.start, folder.offset, folder.size - 3)
        at = 0
        count: int
        start: int
        offset: int
        while at < len(listing):
            count, start, _ = struct.unpack_from("<III", listing, at)
            at += 12
            if count >= 256:
                raise BadImage("a directory of the image is damaged")
            for _ in range(count + 1):
                offset, _, _, length = struct.unpack_from("<HhHH", listing, at)
                name = listing[at + 8 : at + 9 + length]
                at += 9 + length
                if name == wanted:
                    return start << 16 | offset
        return None

    def _content(self, inode: _Inode, most: int) -> bytes:
        if inode.size > min(most, MAX_FILE):
            raise BadImage(f"a file of {inode.size:,} bytes is too large for metadata")
        content, at = b"", inode.start
        for size in inode.blocks:
            stored = size & (DATA_PLAIN - 1)
            left = min(self._block_size, inode.size - len(content))
            content += self._data(at, size).ljust(left, b"\0") if stored else bytes(left)
            at += stored
        if inode.fragment != NO_FRAGMENT:
            rest = inode.size - len(content)
            content += self._fragment(inode.fragment)[inode.offset : inode.offset + rest]
        if len(content) != inode.size:
            raise BadImage("the image ends too early")
        return content

    def _fragment(self, number: int) -> bytes:
        if number >= self._fragments:
            raise BadImage("the image is damaged: a file lies nowhere")
        (block,) = struct.unpack("<Q", self._read_at(self._fragment_table + number // 512 * 8, 8))
        start, size, _ = struct.unpack("<QII", self._metadata(block, number % 512 * 16, 16))
        return self._data(start, size)

    def _data(self, start: int, size: int) -> bytes:
        stored = size & (DATA_PLAIN - 1)
        if stored > self._block_size:
            raise BadImage("the image is damaged: a block is too large")
        raw = self._read_at(start, stored)
        return raw if size & DATA_PLAIN else self._unpacked(raw, self._block_size)

    def _metadata(self, block: int, offset: int, size: int, *, exact: bool = True) -> bytes:
        """`size` bytes from this place of a table on, which lies in packed blocks of 8 KiB."""
        data = b""
        while len(data) < offset + size:
            head = self._read_at(block, 2)
            if len(head) < 2:
                break
            (length,) = struct.unpack("<H", head)
            stored = length & (METADATA_PLAIN - 1)
            if not 0 < stored <= METADATA_BLOCK:
                break
            raw = self._read_at(block + 2, stored)
            try:
                piece = raw if length & METADATA_PLAIN else self._unpacked(raw, METADATA_BLOCK)
            except BadImage:
                if exact or not data:
                    raise
                break  # what follows the last block of a table is none of it
            data += piece
            if len(piece) < METADATA_BLOCK:
                break  # only the last block of a table is shorter
            block += 2 + stored
        if len(data) < offset or (exact and len(data) < offset + size):
            raise BadImage("the image ends too early")
        return data[offset : offset + size]

    def _unpacked(self, raw: bytes, most: int) -> bytes:
        name = _COMPRESSORS.get(self._compressor, str(self._compressor))
        try:
            if name == "gzip":
                return zlib.decompressobj().decompress(raw, most)
            if name == "xz":
                return lzma.LZMADecompressor(memlimit=64 << 20).decompress(raw, most)
            if name == "zstd":
                import zstandard

                return zstandard.ZstdDecompressor(max_window_size=8 << 20).decompress(raw, max_output_size=most)
        except Exception as error:  # three libraries, each with errors of its own
            raise BadImage("the image is damaged: a block cannot be unpacked") from error
        raise BadImage(f"its metadata cannot be read: {name} compression is not supported; use zstd, xz or gzip")
