"""When a process has ended, regardless of its parent and of who still holds its pipes."""

import asyncio
import os


async def ended(pid: int) -> None:
    """Wait for the end of a process, ours or not; it may have ended already, and been reaped."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_reader(fd, over.set)
    try:
        await over.wait()
    finally:
        loop.remove_reader(fd)
        os.close(fd)
