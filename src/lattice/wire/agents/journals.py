"""The journal of a step's output as it leaves a node: records of stream, rank and bytes, one after the other."""

import struct

RECORD = struct.Struct(">BII")  # stream (1 = stdout, 2 = stderr, 3 = size of the terminal), rank, length
WINDOW = 3
SHAPE = struct.Struct(">HH")  # rows, columns


def whole_records(data: bytes) -> int:
    """How many of the bytes are complete records."""
    place = 0
    while place + RECORD.size <= len(data):
        length = RECORD.unpack_from(data, place)[2]
        if place + RECORD.size + length > len(data):
            break
        place += RECORD.size + length
    return place
