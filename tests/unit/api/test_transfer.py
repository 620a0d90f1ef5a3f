"""Leadership goes to the server that was named, although it or the others are slow."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.operations.admin import quorum
from lattice.api.operations.admin.quorum import TransferRequest, transfer_leader
from lattice.ports.quorum.servers import ReplicaAt, ServerState

NAMES = ("s1", "s2", "s3")


class Servers:
    """What the leader s1 sees: s2 gives no answer `silent` times, then leads, or lets s3 be faster."""

    def __init__(self, silent: int = 0, taken_by: str = "s2") -> None:
        self.leader_name = "s1"
        self._silent = silent
        self._taken_by = taken_by
        self.resigned: list[str] = []

    async def ask_all(self, index: int | None) -> list[ServerState]:
        self._silent -= 1
        return [self._state(name) for name in NAMES]

    def _state(self, name: str) -> ServerState:
        if name == "s2" and self._silent >= 0:
            return ServerState(name=name, problem="no answer in time")
        return ServerState(
            name=name, replica=ReplicaAt(name=name, leads=name == self.leader_name, applied_index=1, digest="d")
        )

    async def resign(self, successor: str) -> None:
        self.resigned.append(successor)
        self.leader_name = self._taken_by


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    async def record(*_: object, **__: object) -> None:
        """Nothing is audited here."""

    monkeypatch.setattr(quorum, "_PAUSE_S", 0)
    monkeypatch.setattr(quorum, "record", record)


def transferred(servers: Servers, to: str = "s2") -> str:
    services = SimpleNamespace(quorum=servers, server_name="s1", membership=None)
    context = cast("Context", SimpleNamespace(services=services, request_id=""))
    return asyncio.run(transfer_leader(context, TransferRequest(to=to))).leader


def test_a_server_that_answers_late_is_given_the_lead() -> None:
    servers = Servers(silent=2)
    assert transferred(servers) == "s2"
    assert servers.resigned == ["s2"]


def test_a_server_that_does_not_answer_is_refused() -> None:
    servers = Servers(silent=1000)
    with pytest.raises(ApiError, match="server s2 cannot lead: no answer in time") as refused:
        transferred(servers)
    assert (refused.value.view.code, servers.resigned) == ("conflict", [])
    with pytest.raises(ApiError, match="s9"):
        transferred(Servers(), "s9")


def test_the_client_asks_again_when_another_server_was_faster() -> None:
    with pytest.raises(ApiError, match="server s3 took the lead instead of s2") as refused:
        transferred(Servers(taken_by="s3"))
    assert refused.value.view.code == "unavailable"
