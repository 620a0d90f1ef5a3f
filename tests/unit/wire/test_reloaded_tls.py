"""When gRPC is given new certificates: only if there are any, and after a pause."""

from collections.abc import Callable
from typing import Any

import grpc
import pytest

from lattice.wire.reloaded_tls import Identity, server_credentials


class Asked:
    """Stands in for gRPC's core: keeps what it is to ask before every handshake."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fetch: Callable[[], Any] = lambda: None
        self.first: Any = None
        self.requires_client = False
        monkeypatch.setattr(grpc, "dynamic_ssl_server_credentials", self._credentials)
        monkeypatch.setattr(grpc, "ssl_server_certificate_configuration", lambda pairs, roots: (*pairs[0], roots))

    def _credentials(self, first: object, fetch: Callable[[], Any], *, require_client_authentication: bool) -> "Asked":
        self.first, self.fetch, self.requires_client = first, fetch, require_client_authentication
        return self


def test_nothing_is_replaced_unless_it_changed_and_not_before_others_are_past_their_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = Asked(monkeypatch)
    shown = [Identity(b"key", b"certificate", b"authorities")]
    waited: list[float] = []
    server_credentials(lambda: shown[0], waited.append)
    assert (asked.first, asked.requires_client) == ((b"key", b"certificate", b"authorities"), True)
    assert [asked.fetch(), asked.fetch(), waited] == [None, None, []]
    shown[0] = Identity(b"key 2", b"certificate 2", b"authorities")
    assert asked.fetch() == (b"key 2", b"certificate 2", b"authorities")
    assert len(waited) == 1
    assert asked.fetch() is None
    assert len(waited) == 1


def test_files_that_cannot_be_read_leave_the_former_certificate_in_use(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = Asked(monkeypatch)
    problems: list[Exception] = []

    def current() -> Identity:
        if problems:
            raise problems.pop()
        return Identity(b"key", b"certificate", None)

    server_credentials(current)
    assert not asked.requires_client
    problems += [FileNotFoundError("no such file"), ValueError("client_ca is empty")]
    assert [asked.fetch(), asked.fetch()] == [None, None]
    assert [record.message for record in caplog.records] == [
        "client_ca is empty; the previous certificate stays in use",
        "no such file; the previous certificate stays in use",
    ]
