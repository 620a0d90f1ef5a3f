"""A server whose event loop measures how long anything holds it.

A timer of the loop is due every millisecond. The time from one tick to the next is what was held; the processor time that the whole
process took between the two is the part of it that does not depend on who else uses the machine. It is the process's and not the loop's
thread's, because a thread that keeps the interpreter's lock holds the loop up as well.

python -m bench.holding FILE --config SERVER.YAML: runs the server and keeps the two longest times, in seconds, in FILE.
"""

import asyncio
import mmap
import struct
import sys
import time
from dataclasses import dataclass
from pathlib import Path

TICK_S = 0.001
_LAYOUT = struct.Struct("<dd")


@dataclass(frozen=True)
class Hold:
    """The longest times that the loop was held, in milliseconds; `cpu_ms` is never more than was really waited."""

    cpu_ms: float
    wall_ms: float


class HoldFile:
    """What the server and the measurement share."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_LAYOUT.size))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _LAYOUT.size)

    def reset(self) -> None:
        _LAYOUT.pack_into(self._memory, 0, 0.0, 0.0)

    def read(self) -> Hold:
        cpu_s, wall_s = _LAYOUT.unpack_from(self._memory, 0)
        return Hold(cpu_s * 1000, wall_s * 1000)

    def note(self, cpu_s: float, wall_s: float) -> None:
        worst_cpu_s, worst_wall_s = _LAYOUT.unpack_from(self._memory, 0)
        _LAYOUT.pack_into(self._memory, 0, max(cpu_s, worst_cpu_s), max(wall_s, worst_wall_s))


def watch(loop: asyncio.AbstractEventLoop, file: HoldFile) -> None:
    """Begins to tick; as long as the loop runs."""
    wall_s, cpu_s = time.monotonic(), time.process_time()

    def tick() -> None:
        nonlocal wall_s, cpu_s
        now_s, used_s = time.monotonic(), time.process_time()
        held_s = max(0.0, now_s - wall_s - TICK_S)
        file.note(min(held_s, used_s - cpu_s), held_s)
        wall_s, cpu_s = now_s, used_s
        loop.call_later(TICK_S, tick)

    loop.call_later(TICK_S, tick)


def main() -> None:
    import uvloop

    from lattice.daemons.programs import server

    file = HoldFile(Path(sys.argv[1]))
    new_loop = uvloop.new_event_loop

    def watched() -> asyncio.AbstractEventLoop:
        loop = new_loop()
        watch(loop, file)
        return loop

    uvloop.new_event_loop = watched  # type: ignore[assignment]
    server.main(sys.argv[2:])


if __name__ == "__main__":
    main()
