"""Two directions of one connection."""

import asyncio
from collections.abc import Coroutine


async def until_either_ends(*directions: Coroutine[None, None, None]) -> None:
    """Runs them together. With the first that ends, whatever its end, the others are cancelled and gone when this returns."""
    tasks = [asyncio.create_task(each) for each in directions]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
