"""What `lattice-supervisor run` does: starts a cluster, keeps it running, and tells its caller how that goes."""

import asyncio
import json
import logging
import os
import signal
import sys
from typing import Any

from lattice.daemons.local import readiness
from lattice.daemons.local.cluster import Cluster
from lattice.daemons.local.layout import HINT, HINTS, Layout, open_log, take_lock, told
from lattice.daemons.local.options import AlreadyRunning, Options, StartFailed
from lattice.daemons.local.teardown import stop_members
from lattice_sdk.site.local_cluster import read_cluster

_log = logging.getLogger(__name__)


class Caller:
    """The process that started us and waits for the result; it may exit at any time."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def tell(self, **message: Any) -> None:  # noqa: ANN401 - JSON
        try:
            os.write(self._fd, json.dumps(message).encode() + b"\n")
        except OSError:
            _log.debug("no listener")

    def progress(self, text: str) -> None:
        _log.info(text)
        self.tell(progress=text)

    def release(self) -> None:
        """Ends the reports: the caller reads end of file."""
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, self._fd)
        os.close(null)


def run(layout: Layout, options: Options, caller: Caller, *, until_stdin_closes: bool) -> int:
    lock = claim(layout)
    try:
        left = stop_members(layout)
        if left:
            raise StartFailed(f"cannot end processes of an earlier start: {[process.pid for process in left]}")
        return asyncio.run(supervise(layout, options, caller, until_stdin_closes))
    except StartFailed as error:
        _log.error(str(error))
        raise
    except OSError as error:
        _log.exception("failed")
        raise StartFailed(told(error)) from error
    finally:
        stop_members(layout)
        os.close(lock)


def claim(layout: Layout) -> int:
    """Locks the directory and opens its log; nothing is logged before, because the terminal belongs to the caller."""
    try:
        layout.prepare()
        lock = take_lock(layout.lock)
        if lock is None:
            raise already_running(layout)
        log_to_file(layout)
    except OSError as error:
        raise StartFailed(f"cannot use {layout.root}: {told(error)}", hint=HINTS.get(type(error), HINT)) from error
    return lock


def log_to_file(layout: Layout) -> None:
    """Releases the caller's terminal and directory."""
    log = open_log(layout.log_of("supervisor", "supervisor"))
    os.dup2(log, sys.stderr.fileno())
    os.close(log)
    os.chdir("/")


def already_running(layout: Layout) -> AlreadyRunning:
    cluster = read_cluster(layout.root)
    where = f" at {cluster.api_url}" if cluster is not None and cluster.api_url else ""
    return AlreadyRunning(
        f"a cluster is already running in {layout.root}{where}",
        hint=f"run `lattice down --dir {layout.root}` to stop it, or use another --dir and other ports for a second one",
    )


async def supervise(layout: Layout, options: Options, caller: Caller, until_stdin_closes: bool) -> int:
    stopping = stop_asked(until_stdin_closes)
    cluster = Cluster(layout, options)
    cluster.record.put("supervisor", "supervisor", os.getpid())
    try:
        starting = asyncio.create_task(start(cluster, layout, caller))
        asked = asyncio.create_task(stopping.wait())
        await asyncio.wait({starting, asked}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            caller.release()
            await asked
        else:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
        _log.info("stopping")
    finally:
        await cluster.stop_keeping()
    return 0


def stop_asked(until_stdin_closes: bool) -> asyncio.Event:
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked.set)
    loop.add_signal_handler(signal.SIGHUP, lambda: None)

    def stdin_closed() -> None:
        loop.remove_reader(sys.stdin.fileno())
        asked.set()

    if until_stdin_closes:
        loop.add_reader(sys.stdin.fileno(), stdin_closed)
    return asked


async def start(cluster: Cluster, layout: Layout, caller: Caller) -> None:
    states = await cluster.start(caller.progress)
    number = await asyncio.to_thread(readiness.next_number, layout, cluster.rest_port)
    _log.info("ready at %s", cluster.api_url)
    about = {"api_url": cluster.api_url, "nodes": states, "next_number": number, "dir": str(layout.root)}
    page = await asyncio.to_thread(readiness.page_of, cluster.rest_port)
    caller.tell(ready={**about, "page": page})
