"""What every source of budgets outside the cluster has to do, whatever it stands on."""

import asyncio
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from lattice.core.model.site.budgets import Remaining
from lattice.integrations.budgets.remaining import HttpBudgets, open_budgets
from lattice.ports.site.budgets import BudgetSource, BudgetsUnavailable

GOOD = (
    '{"tenants": {"physics": {"gpu_hours_budget": 100, "gpu_hours_remaining": -5.5},'
    ' "biology": {"node_hours_budget": 50, "node_hours_remaining": 50, "note": "new"}}}'
)
Served = Callable[[str], BudgetSource]


class _Server(ThreadingHTTPServer):
    body = b""
    status = 200
    wanted = ""  # what Authorization has to be
    elsewhere = ""  # where it redirects to


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, _Server)
        is_known = self.headers.get("Authorization", "") == self.server.wanted
        self.send_response(self.server.status if is_known else 401)
        if self.server.elsewhere:
            self.send_header("Location", self.server.elsewhere)
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@pytest.fixture
def server() -> Iterator[_Server]:
    with _Server(("127.0.0.1", 0), _Handler) as running:
        thread = Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def address(server: _Server) -> str:
    return f"http://127.0.0.1:{server.server_port}/budgets"


@pytest.fixture(params=["file", "http"])
def served(request: pytest.FixtureRequest, tmp_path: Path, server: _Server) -> Served:
    """Turns a text into a source that has it."""

    def in_file(text: str) -> BudgetSource:
        (tmp_path / "budgets.json").write_text(text)
        return open_budgets(str(tmp_path / "budgets.json"))

    def by_http(text: str) -> BudgetSource:
        server.body = text.encode()
        return open_budgets(address(server))

    return in_file if request.param == "file" else by_http


def test_budgets_are_by_tenant(served: Served) -> None:
    assert asyncio.run(served(GOOD).remaining()) == {
        "physics": Remaining(gpu_hours_budget=100.0, gpu_hours_remaining=-5.5),
        "biology": Remaining(node_hours_budget=50.0, node_hours_remaining=50.0),
    }


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "{}",
        "[1]",
        '{"tenants": {"physics": {"gpu_hours_budget": "much"}}}',
        '{"tenants": {"physics": {"gpu_hours_budget": -1}}}',
        '{"tenants": {"physics": {"gpu_hours_budget": 1e999}}}',
        '{"tenants": {"physics": null}}',
        '{"tenants": ' + '{"a": ' * 100_000,
    ],
)
def test_what_makes_no_sense_is_no_answer(served: Served, bad: str) -> None:
    with pytest.raises(BudgetsUnavailable):
        asyncio.run(served(bad).remaining())


def test_a_source_that_is_not_there_is_unavailable(tmp_path: Path, server: _Server) -> None:
    with pytest.raises(BudgetsUnavailable, match="No such file"):
        asyncio.run(open_budgets(str(tmp_path / "none.json")).remaining())
    server.status = 503
    with pytest.raises(BudgetsUnavailable, match="503"):
        asyncio.run(open_budgets(address(server)).remaining())
    with pytest.raises(BudgetsUnavailable):
        asyncio.run(HttpBudgets("http://127.0.0.1:9/budgets", timeout_s=0.5).remaining())


def test_an_address_may_want_a_token(tmp_path: Path, server: _Server) -> None:
    server.body, server.wanted = GOOD.encode(), "Bearer sesame"
    with pytest.raises(BudgetsUnavailable, match="401"):
        asyncio.run(open_budgets(address(server)).remaining())
    (tmp_path / "token").write_text("sesame\n")
    assert "physics" in asyncio.run(open_budgets(address(server), str(tmp_path / "token")).remaining())
    with pytest.raises(BudgetsUnavailable):
        asyncio.run(open_budgets(address(server), str(tmp_path / "none")).remaining())


def test_an_answer_without_end_is_refused(server: _Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lattice.integrations.budgets.remaining.MAX_BYTES", 10)
    server.body = GOOD.encode()
    with pytest.raises(BudgetsUnavailable, match="more than 10 bytes"):
        asyncio.run(open_budgets(address(server)).remaining())


def test_the_token_goes_to_the_configured_address_alone(server: _Server, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    with _Server(("127.0.0.1", 0), _Handler) as other:
        other.body = GOOD.encode()  # it takes only those who show no token
        thread = Thread(target=other.serve_forever)
        thread.start()
        server.status, server.wanted, server.elsewhere = 302, "Bearer secret", address(other)
        try:
            found = asyncio.run(open_budgets(address(server), str(tmp_path / "token")).remaining())
        finally:
            other.shutdown()
            thread.join()
    assert sorted(found) == ["biology", "physics"]
