"""What a client that comes to a terminal sees first: its last screen, and the position behind it."""

import base64
import struct

from msgspec import Struct

from lattice.ports.nodes.agents import AgentUnreachable, OutputUnavailable
from lattice.ports.nodes.steps import StepService, StepView
from lattice.wire.agents.journals import RECORD, SHAPE, WINDOW, whole_records
from lattice.wire.text.screen import Screen

TAIL_BYTES = 64 << 10  # more than any screen; the size of the terminal is said at least this often


class StepScreen(Struct, frozen=True, kw_only=True):
    """The screen of a terminal: bytes (base64) that draw it, whatever was shown before; `next` is the position after it."""

    node: int
    next: int
    data: str
    rows: int
    columns: int


async def screen_of(service: StepService, view: StepView) -> StepScreen | None:
    """The screen as it is now; None when its node does not answer, or nothing was written yet."""
    if view.layout is None:
        return None
    data, end = b"", 0
    pieces = service.read(view.layout.nodes[0], view.number, view.run, view.step, offset=-TAIL_BYTES, follow=False)
    try:
        async for piece in pieces:
            data, end = data + piece.data, piece.offset + len(piece.data)
    except (AgentUnreachable, OutputUnavailable):
        return None
    size = whole_records(data)
    if not size:
        return None
    rows, columns, drawing = drawn(data[:size])
    return StepScreen(
        node=0,
        next=end - (len(data) - size),
        data=base64.b64encode(drawing).decode(),
        rows=rows,
        columns=columns,
    )


def drawn(records: bytes) -> tuple[int, int, bytes]:
    """Rows, columns, and what draws the screen that these records of a journal leave."""
    pieces, shape = [], (0, 0)
    place = 0
    while place < len(records):
        stream, _, length = RECORD.unpack_from(records, place)
        place += RECORD.size + length
        pieces.append((stream, records[place - length : place]))
    shapes = [_shape(data) for stream, data in pieces if stream == WINDOW]
    shape = shapes[0] if shapes else (24, 80)
    screen = Screen(*shape)
    for stream, data in pieces:
        if stream == WINDOW:
            shape = _shape(data)
            screen.resize(*shape)
        else:
            screen.feed(data)
    return *shape, screen.drawing()


def _shape(data: bytes) -> tuple[int, int]:
    try:
        rows, columns = SHAPE.unpack(data)
    except struct.error:
        return 24, 80
    return rows, columns
