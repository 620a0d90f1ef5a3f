"""What is told to systemd."""

import asyncio
import socket
from pathlib import Path

import pytest

from lattice.observe.service_manager import ServiceManager


def test_without_a_service_manager_every_call_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    manager = ServiceManager.of_this_process()
    manager.say_ready("up")
    manager.say_stopping()
    asyncio.run(manager.keep_alive())


def test_the_variables_are_not_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"):
        monkeypatch.setenv(name, "1")
    ServiceManager.of_this_process()
    assert not {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} & set(os.environ)


def test_ready_and_signs_of_life_reach_the_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(path)
        receiver.settimeout(30)
        manager = ServiceManager.read({"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "30000", "WATCHDOG_PID": "7"}, pid=7)
        manager.say_ready("serves")
        assert receiver.recv(100) == b"READY=1\nSTATUS=serves"

        async def live() -> None:
            alive = asyncio.create_task(manager.keep_alive())
            for _ in range(2):
                assert await asyncio.to_thread(receiver.recv, 100) == b"WATCHDOG=1"
            alive.cancel()

        asyncio.run(live())
    manager.say_stopping()  # the manager is gone: no failure


def test_a_watchdog_of_another_process_is_not_fed() -> None:
    assert ServiceManager.read({"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "8"}, pid=7).watchdog_s == 0
    assert ServiceManager.read({"WATCHDOG_USEC": "x"}, pid=7).watchdog_s == 0
