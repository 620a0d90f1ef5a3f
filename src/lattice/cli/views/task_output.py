"""What tasks write, merged: whole lines of many tasks, bytes as they come of one, with the rank before each line when asked."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

LONGEST_LINE = 1 << 16


class MergedOutput:
    """`streams` are where stdout (1) and stderr (2) of the tasks go; with `tasks` > 1 lines are kept whole."""

    def __init__(self, streams: "dict[int, BinaryIO]", tasks: int, *, label: bool, raw: bool) -> None:
        self._streams = streams
        self._width = len(str(max(0, tasks - 1)))
        self._label = label
        self._is_direct = raw or (tasks == 1 and not label)
        self._partial: dict[tuple[int, int], bytes] = {}

    def write(self, rank: int, stream: int, data: bytes) -> None:
        target = self._streams[stream]
        if not self._is_direct:
            data = self._whole_lines(rank, stream, data)
        if data:
            target.write(data)
            target.flush()

    def _whole_lines(self, rank: int, stream: int, data: bytes) -> bytes:
        data = self._partial.pop((rank, stream), b"") + data
        cut = data.rfind(b"\n") + 1
        if len(data) - cut > LONGEST_LINE:
            cut = len(data)
        if cut < len(data):
            self._partial[rank, stream] = data[cut:]
        return self._labelled(rank, data[:cut])

    def _labelled(self, rank: int, lines: bytes) -> bytes:
        if not self._label or not lines:
            return lines
        head = f"{rank:>{self._width}}: ".encode()
        return b"".join(head + line for line in lines.splitlines(keepends=True))

    def finish(self) -> None:
        """Write what has no end of line."""
        for (rank, stream), rest in sorted(self._partial.items()):
            target = self._streams[stream]
            target.write(self._labelled(rank, rest) + (b"\n" if self._label else b""))
            target.flush()
        self._partial.clear()
