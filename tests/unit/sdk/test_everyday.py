"""What programs and notebooks do every day: find the cluster, hand times in, wait for many, look at a record."""

import asyncio
import inspect
import json
import pydoc
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import lattice_sdk
from lattice_sdk import (
    Allocation,
    AllocationFilter,
    AllocationSpec,
    Client,
    LatticeClient,
    LatticeError,
    LifecycleRequest,
    NotConfigured,
    Refused,
    Submission,
    WaitTimedOut,
)
from lattice_sdk.models.dags import Dag
from lattice_sdk.site import configuration
from tests.unit.sdk.fake_api import Asked, FakeApi, Reply

ROOT = Path(__file__).parents[3]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with nothing but a home directory, on a machine without a site."""
    monkeypatch.setattr(configuration, "SITE_FILE", str(tmp_path / "site.yaml"))
    return tmp_path


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def asked_with(api: FakeApi, **variables: str) -> dict[str, str]:
    """The headers that a client sends which finds its cluster by these variables."""
    api.on("GET", "/whoami", {"user": "u"})
    with Client.from_environment(variables) as client:
        client.whoami()
    return api.last().headers


def test_a_client_finds_the_cluster_in_the_configuration_file(api: FakeApi, home: Path) -> None:
    token = written(home / "token", "from-file\n")
    written(home / ".config/lattice/config.yaml", f"endpoint: {api.url}\ntoken_file: {token}\ntenant: physics\n")
    headers = asked_with(api, HOME=str(home))
    assert headers["authorization"] == "Bearer from-file"
    assert headers["x-lattice-tenant"] == "physics"


def test_the_users_file_has_precedence_over_that_of_the_site(api: FakeApi, home: Path) -> None:
    written(home / "site.yaml", f"endpoint: {api.url}\ntenant: site\n")
    written(home / ".config/lattice/config.yaml", "tenant: mine\n")
    assert asked_with(api, HOME=str(home), LATTICE_TOKEN="t")["x-lattice-tenant"] == "mine"


def test_a_file_with_more_than_plain_lines_is_read_too(api: FakeApi, home: Path) -> None:
    written(home / ".config/lattice/config.yaml", f'endpoint:\n  - "{api.url}"\n')
    assert asked_with(api, HOME=str(home), LATTICE_TOKEN="t")["authorization"] == "Bearer t"


def test_a_client_finds_the_cluster_on_this_machine_with_its_token(api: FakeApi, home: Path) -> None:
    local = home / ".local/state/lattice/local"
    written(local / "cluster.json", json.dumps({"processes": [], "api_url": api.url}))
    written(local / "token", "local-token\n")
    assert asked_with(api, HOME=str(home))["authorization"] == "Bearer local-token"
    assert asked_with(api, HOME=str(home), LATTICE_API_URL=api.url)["authorization"] == "Bearer local-token"


def test_without_a_cluster_the_error_is_ours_and_has_a_hint(home: Path) -> None:
    for kind in (Client, LatticeClient):
        with pytest.raises(NotConfigured, match="no cluster is configured") as caught:
            kind.from_environment({"HOME": str(home)})
        assert isinstance(caught.value, LatticeError)
        assert "LATTICE_API_URL" in caught.value.hint
        with pytest.raises(LatticeError, match="there is no configuration file"):
            kind.from_environment({"HOME": str(home), "LATTICE_CONFIG": "/does/not/exist"})
        with pytest.raises(LatticeError, match="ftp"):
            kind.from_environment({"HOME": str(home), "LATTICE_API_URL": "ftp://somewhere"})


def test_times_and_durations_are_taken_as_python_has_them(client: Client, api: FakeApi) -> None:
    api.on("POST", "/allocations", {"id": "a1", "number": 1})
    begin = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    client.submit(AllocationSpec(entrypoint=["true"], walltime=timedelta(minutes=90), begin=begin, deadline=begin))
    assert api.last().json["lifecycle"]["walltime"] == "5400s"
    assert api.last().json["begin"] == api.last().json["deadline"] == "2026-03-01T12:00:00Z"
    client.submit(Submission(entrypoint="true", lifecycle=LifecycleRequest(walltime=timedelta(seconds=0.5))))
    assert api.last().json["lifecycle"]["walltime"] == "0.5s"
    api.on("PATCH", "/allocations/a1", {"id": "a1", "number": 1})
    client.update("a1", {"walltime": timedelta(hours=2), "name": "x"})
    assert api.last().json == {"walltime": "7200s", "name": "x"}
    api.on("GET", "/allocations/count", {"total": 0})
    client.count_allocations(AllocationFilter(since=begin))
    assert api.last().parameter("since") == "2026-03-01T12:00:00Z"


def test_a_time_without_a_zone_is_local(client: Client, api: FakeApi) -> None:
    api.on("POST", "/allocations", {"id": "a1", "number": 1})
    local = datetime(2026, 3, 1, 12, 0)  # noqa: DTZ001 - what users write
    client.submit(AllocationSpec(entrypoint=["true"], begin=local))
    assert datetime.fromisoformat(api.last().json["begin"]) == local.astimezone()


def test_times_and_durations_are_returned_as_python_has_them() -> None:
    ended = Allocation(
        id="a1", number=1, submitted_at="2026-03-01T12:00:00Z", completed_at="2026-03-01T12:01:00Z", walltime_s=300
    )
    assert ended.submitted == datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    assert ended.ended is not None
    assert ended.ended - ended.submitted == timedelta(minutes=1)
    assert ended.walltime == timedelta(minutes=5)
    assert ended.started is None
    assert ended.elapsed is None


def standing(number: int, state: str) -> dict[str, object]:
    return {"id": f"a{number}", "number": number, "state": state}


def test_wait_many_returns_all_of_them_in_order(client: Client, api: FakeApi) -> None:
    for number in (1, 2):
        api.on("GET", f"/allocations/a{number}/wait", standing(number, "Completed"))
    first = Allocation(id="a1", number=1)
    assert [each.id for each in client.wait_many(["a2", first], timeout=timedelta(seconds=5))] == ["a2", "a1"]
    api.on("GET", "/allocations/a2/wait", standing(2, "Running"))
    with pytest.raises(WaitTimedOut, match="a2 is still Running"):
        client.wait_many(["a1", "a2"], timeout=0)


def three_that_end(api: FakeApi) -> None:
    """a1 has ended, a3 ends before a2."""

    def ended(number: int) -> str:
        return (
            f"id: {number}\nevent: ended\ndata: "
            + json.dumps({"index": number, **standing(number, "Completed")})
            + "\n\n"
        )

    api.on("GET", "/events", Reply(events=(ended(3), ended(2))))
    api.on("GET", "/allocations/a1", standing(1, "Failed"))
    for number in (2, 3):
        api.on("GET", f"/allocations/a{number}", standing(number, "Running"), standing(number, "Completed"))


def test_as_completed_returns_each_when_it_has_ended(client: Client, api: FakeApi) -> None:
    three_that_end(api)
    assert [each.id for each in client.as_completed(["a2", "a1", "a3"], timeout=20)] == ["a1", "a3", "a2"]


def test_as_completed_on_the_event_loop(api: FakeApi) -> None:
    three_that_end(api)

    async def ask() -> list[str]:
        async with LatticeClient(api.url, token="t") as client:
            return [each.id async for each in client.as_completed(["a2", "a1", "a3"], timeout=20)]

    assert asyncio.run(ask()) == ["a1", "a3", "a2"]


def test_as_completed_gives_up_in_time(client: Client, api: FakeApi) -> None:
    def silence(_asked: Asked) -> Reply:
        return Reply(events=())

    api.on("GET", "/events", silence)
    api.on("GET", "/allocations/a2", standing(2, "Running"))
    with pytest.raises(WaitTimedOut, match="1 have not ended, among them a2"):
        list(client.as_completed(["a2"], timeout=0.1))


def test_help_shows_what_a_call_returns() -> None:
    assert inspect.signature(Client.submit).return_annotation is Allocation
    assert inspect.signature(LatticeClient.status).return_annotation is Allocation
    assert "Generator" not in pydoc.plain(pydoc.render_doc(Client))
    assert "-> lattice_sdk.models.records.Allocation" in pydoc.plain(pydoc.render_doc(Client.submit))


def test_the_version_is_that_of_the_distribution() -> None:
    assert lattice_sdk.__version__ == tomllib.loads((ROOT / "sdk/pyproject.toml").read_text())["project"]["version"]


def test_notebooks_show_a_table_without_what_users_could_slip_in() -> None:
    group = group_named("<b>sweep</b>")
    page = group._repr_html_()
    assert "&lt;b&gt;sweep&lt;/b&gt;" in page
    assert "<b>" not in page
    assert "3/4, 1 running, 1 failed" in page
    dag = Dag(id="d1", number=1, name="flow", state="Running")
    assert "d1" in dag._repr_html_()


def group_named(name: str) -> Allocation:
    counts = lattice_sdk.TaskCounts(size=4, running=1, completed=2, failed=1)
    return Allocation(id="a9", number=9, name=name, state="Running", tasks=counts)


def test_a_traceback_has_figures_and_hint() -> None:
    error = Refused("not enough nodes", current="12 nodes", requested="16 nodes", hint="request fewer nodes")
    assert str(error) == "not enough nodes"
    assert error.__notes__ == ["current: 12 nodes", "requested: 16 nodes", "hint: request fewer nodes"]
