"""Where the agent shows its metrics: `--metrics-listen`."""

import argparse
import asyncio
import logging
from collections.abc import Callable, Sequence

from lattice.agent.driver import Driver
from lattice.agent.figures.listener import FigureListener
from lattice.daemons.agent.listener import HOST_WITHIN_S, OFF, own_host

DEFAULT = "127.0.0.1:9103"
_EVERYWHERE = ("", "0.0.0.0", "::", "*")  # noqa: S104 - compared with, not bound to

_log = logging.getLogger(__name__)


def add_figures_option(add: Callable[..., argparse.Action]) -> None:
    add(
        "--metrics-listen",
        type=_place,
        default=DEFAULT,
        metavar="HOST:PORT|off",
        help="address of this agent's metrics, at /metrics; port 0 picks a free one (default: %(default)s)",
    )


def _place(text: str) -> tuple[str, int] | None:
    if text == OFF:
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or not 0 <= int(port) < 65536:
        raise argparse.ArgumentTypeError("must be HOST:PORT, or off")
    return host.strip("[]"), int(port)


async def show_figures(driver: Driver, place: tuple[str, int] | None, endpoints: Sequence[str]) -> None:
    """Opens the page and announces it to the servers; an agent that cannot listen works without it."""
    if place is None:
        return
    host, port = place
    is_everywhere = host in _EVERYWHERE
    listener = FigureListener(driver.figures.page)
    try:
        bound = await listener.start("" if is_everywhere else host, port)
        if is_everywhere:
            async with asyncio.timeout(HOST_WITHIN_S):
                host = await asyncio.to_thread(own_host, driver.settings.facts.address, endpoints)
    except OSError as error:
        _log.warning("cannot show metrics at %s:%d: %s", *place, error)
        return
    driver.show_figures_at(f"[{host}]:{bound}" if ":" in host else f"{host}:{bound}")
