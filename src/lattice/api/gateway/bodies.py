"""Where a body ends, while its bytes are passed on as they are. Pure."""

from lattice.api.gateway.heads import BadHead, Body

_MAX_LINE = 4096


class BodyReader:
    """`take` says how many of the bytes belong to the body; `is_over` when the next one does not."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._left = body.length
        self._line = b""
        self._part = "size"
        self.is_over = not body.is_chunked and not body.is_endless and not body.length

    def take(self, data: bytes) -> int:
        """Raises BadHead for chunks that are none."""
        if self.is_over:
            return 0
        if self._body.is_endless:
            return len(data)
        if not self._body.is_chunked:
            taken = min(self._left, len(data))
            self._left -= taken
            self.is_over = not self._left
            return taken
        return self._take_chunks(data)

    def _take_chunks(self, data: bytes) -> int:
        place = 0
        while place < len(data) and not self.is_over:
            if self._left:
                step = min(self._left, len(data) - place)
                self._left -= step
                place += step
                continue
            end = data.find(b"\n", place)
            piece = data[place : end + 1] if end >= 0 else data[place:]
            self._line += piece
            place += len(piece)
            if len(self._line) > _MAX_LINE:
                raise BadHead("a chunk that is none")
            if end >= 0:
                self._take_line()
        return place

    def _take_line(self) -> None:
        line, self._line = self._line, b""
        if not line.endswith(b"\r\n"):
            raise BadHead("a chunk that is none")
        text = line[:-2]
        if self._part == "size":
            size = text.partition(b";")[0].strip()
            if not size or len(size) > 15 or set(size.lower()) - set(b"0123456789abcdef"):
                raise BadHead("a chunk that is none")
            self._left = int(size, 16)
            self._part = "break" if self._left else "trailer"
        elif self._part == "break":
            if text:
                raise BadHead("a chunk that is none")
            self._part = "size"
        elif not text:
            self.is_over = True
