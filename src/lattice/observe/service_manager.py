"""Tells systemd that this process is ready, alive or stopping; without systemd, or without `Type=notify`, every call does nothing."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Mapping


class ServiceManager:
    """Messages go to the socket in NOTIFY_SOCKET; a manager that does not read them is no reason to fail."""

    def __init__(self, address: str, watchdog_s: float) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.watchdog_s = watchdog_s  # the longest silence that systemd tolerates; 0 = any

    @classmethod
    def of_this_process(cls) -> "ServiceManager":
        """Takes the variables out of the environment: what this process starts must not speak for it."""
        found = {name: os.environ.pop(name, "") for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")}
        return cls.read(found, pid=os.getpid())

    @classmethod
    def read(cls, environment: Mapping[str, str], *, pid: int) -> "ServiceManager":
        period = environment.get("WATCHDOG_USEC", "")
        is_mine = environment.get("WATCHDOG_PID", "") in ("", str(pid))
        return cls(environment.get("NOTIFY_SOCKET", ""), int(period) / 1e6 if period.isdecimal() and is_mine else 0.0)

    def say_ready(self, status: str) -> None:
        self._send(f"READY=1\nSTATUS={status}")

    def say_stopping(self) -> None:
        self._send("STOPPING=1")

    async def keep_alive(self) -> None:
        """Says that the event loop turns; if it no longer does, systemd ends the process. Returns where no watchdog is set."""
        while self.watchdog_s and self._address:
            self._send("WATCHDOG=1")
            await asyncio.sleep(self.watchdog_s / 3)

    def _send(self, message: str) -> None:
        if not self._address:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(message.encode(), self._address)
