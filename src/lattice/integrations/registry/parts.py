"""Parts of a file behind a URL, so that its metadata can be read without its rest."""

import re

from lattice.images.squashfs import BadImage
from lattice.integrations.registry.transport import HttpFailed, Transport, host_of
from lattice.ports.site.images import RegistryUnavailable, UnknownImage

PIECE = 64 << 10  # what is asked for at once: metadata lies together
MAX_PIECES = 64
_RANGE = re.compile(r"bytes \d+-\d+/(\d+)")


class RemoteFile:
    """`read_at` is what a reader of squashfs wants; `size` is known once something was read."""

    def __init__(self, transport: Transport, url: str, size: int = 0) -> None:
        self._transport = transport
        self._url = url
        self.size = size
        self._pieces: dict[int, bytes] = {}

    def read_at(self, offset: int, size: int) -> bytes:
        """Fewer bytes at the end of the file. Raises BadImage, UnknownImage and RegistryUnavailable."""
        first, last = offset // PIECE, (offset + max(1, size) - 1) // PIECE
        if last - first >= MAX_PIECES:
            raise BadImage("its metadata is too large")
        data = b"".join(self._piece(number) for number in range(first, last + 1))
        begin = offset - first * PIECE
        return data[begin : begin + size]

    def _piece(self, number: int) -> bytes:
        if number not in self._pieces:
            if len(self._pieces) >= MAX_PIECES:
                raise BadImage("its metadata is in too many places")
            begin = number * PIECE
            self._pieces[number] = b"" if self.size and begin >= self.size else self._ask(begin)
        return self._pieces[number]

    def _ask(self, begin: int) -> bytes:
        host = host_of(self._url)
        try:
            with self._transport.get(self._url, {"Range": f"bytes={begin}-{begin + PIECE - 1}"}) as answer:
                if answer.status == 416:  # nothing is there any more
                    return b""
                if answer.status in (404, 410):
                    raise UnknownImage(f"{host} does not have it any more")
                if answer.status != 206:
                    raise RegistryUnavailable(f"{host} does not give parts of files (HTTP {answer.status})")
                said = _RANGE.fullmatch(answer.header("Content-Range").strip())
                self.size = int(said[1]) if said else self.size
                return answer.body(PIECE)
        except HttpFailed as error:
            raise RegistryUnavailable(f"the registry {error}", "try again later") from error
