"""Where the cluster is looked for, and what is said when the answer is nowhere or unreadable."""

import json
import os
import socket

import pytest

from tests.unit.cli.runner import Cli
from tests.unit.sdk.fake_api import FakeApi


@pytest.fixture
def bare(cli: Cli) -> Cli:
    """A command line that nobody told anything."""
    del cli.environment["LATTICE_API_URL"], cli.environment["LATTICE_TOKEN"]
    return cli


def write_config(cli: Cli, text: str) -> str:
    (cli.folder / ".config" / "lattice").mkdir(parents=True, exist_ok=True)
    return cli.write(".config/lattice/config.yaml", text)


def write_cluster(cli: Cli, api: FakeApi, folder: str = ".local/state/lattice/local") -> None:
    (cli.folder / folder).mkdir(parents=True, exist_ok=True)
    cli.write(f"{folder}/cluster.json", json.dumps({"processes": [], "api_url": api.url, "dir": "x", "grpc": ""}))
    cli.write(f"{folder}/token", "local-token\n")


def token_sent(api: FakeApi) -> str:
    return api.last().headers["authorization"].removeprefix("Bearer ")


def closed_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_file_that_outlived_its_cluster_is_not_waited_for(bare: Cli, api: FakeApi) -> None:
    write_cluster(bare, api)
    gone = {"role": "supervisor", "name": "supervisor", "pid": os.getpid(), "started": 1}
    bare.write(".local/state/lattice/local/cluster.json", json.dumps({"processes": [gone], "api_url": api.url}))
    outcome = bare("status")
    assert outcome.code == 6
    assert "none is running on this machine" in outcome.err
    here = {**gone, "started": 0}
    bare.write(".local/state/lattice/local/cluster.json", json.dumps({"processes": [here], "api_url": api.url}))
    assert bare("whoami").code == 0


def test_nothing_said_and_nothing_running(bare: Cli, api: FakeApi) -> None:
    outcome = bare("status")
    assert outcome.code == 6
    assert "none is running on this machine" in outcome.err
    assert "`lattice up`" in outcome.err


def test_the_local_cluster_is_found_with_its_token(bare: Cli, api: FakeApi) -> None:
    write_cluster(bare, api)
    assert bare("whoami").code == 0
    assert token_sent(api) == "local-token"


@pytest.mark.parametrize(("variable", "folder"), [("LATTICE_DIR", "here"), ("XDG_STATE_HOME", "here/lattice/local")])
def test_the_local_cluster_may_live_elsewhere(variable: str, folder: str, bare: Cli, api: FakeApi) -> None:
    write_cluster(bare, api, folder)
    assert bare("whoami", **{variable: str(bare.folder / "here")}).code == 0


@pytest.mark.parametrize("key", ["endpoint", "api_url"])
def test_the_configuration_file_names_cluster_tenant_and_format(key: str, bare: Cli, api: FakeApi) -> None:
    write_config(bare, f"{key}: {api.url}\ndefault_tenant: physics\noutput_format: json\ncolor: true\n")
    outcome = bare("whoami", LATTICE_TOKEN="t")
    assert outcome.json["user"] == "alice"
    assert api.last().headers["x-lattice-tenant"] == "physics"


def test_several_endpoints_may_be_listed(bare: Cli, api: FakeApi) -> None:
    write_config(bare, f"endpoint:\n  - {closed_address()}\n  - {api.url}\n")
    assert bare("whoami", "--retry-for=0", LATTICE_TOKEN="t").code == 0


@pytest.mark.parametrize("variable", ["LATTICE_API_URL", "LATTICE_ENDPOINT"])
def test_flags_beat_variables_beat_the_file(variable: str, bare: Cli, api: FakeApi) -> None:
    gone = closed_address()
    write_config(bare, f"endpoint: {gone}\ntenant: file\n")
    assert bare("whoami", **{variable: api.url, "LATTICE_TOKEN": "t", "LATTICE_TENANT": "variable"}).code == 0
    assert api.last().headers["x-lattice-tenant"] == "variable"
    line = ("whoami", "--api-url", api.url, "--tenant=flag")
    assert bare(*line, **{variable: gone, "LATTICE_TOKEN": "t", "LATTICE_TENANT": "variable"}).code == 0
    assert api.last().headers["x-lattice-tenant"] == "flag"


def test_where_the_token_comes_from(bare: Cli, api: FakeApi) -> None:
    first, second = bare.write("first", "first-token"), bare.write("second", "second-token\n")
    variables = {"LATTICE_API_URL": api.url, "LATTICE_TOKEN_FILE": first}
    bare("whoami", **variables)
    assert token_sent(api) == "first-token"
    bare("whoami", **variables, LATTICE_TOKEN="plain")
    assert token_sent(api) == "plain"
    bare("whoami", "--token-file", second, **variables)
    assert token_sent(api) == "second-token"
    write_config(bare, f"token_file: {second}\n")
    bare("whoami", LATTICE_API_URL=api.url)
    assert token_sent(api) == "second-token"


def test_the_local_token_goes_to_the_local_cluster_only(bare: Cli, api: FakeApi) -> None:
    write_cluster(bare, api)
    assert bare("whoami", LATTICE_API_URL=api.url).code == 0
    assert token_sent(api) == "local-token"
    other = FakeApi()
    outcome = bare("whoami", "--api-url", other.url)
    assert outcome.code == 5
    assert "not logged in" in outcome.err
    assert other.asked == []
    other.close()


def test_a_token_file_that_is_missing(bare: Cli, api: FakeApi) -> None:
    outcome = bare("whoami", LATTICE_API_URL=api.url, LATTICE_TOKEN_FILE="/no/such/file")
    assert outcome.code == 5
    assert "cannot read the token file /no/such/file" in outcome.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("endpoint: [a\ntenant: b\n", ", line 2, column 7: "),
        ("endpoint: 'a\n", ", line 2, column 1: "),
        ("a\n", ", line 1, column 1: "),
        ("endpoint: {a: b}\n", '"endpoint" must be a single value'),
        ("output_format: xml\n", '"output_format" must be one of table'),
    ],
)
def test_a_damaged_configuration_file_is_told_with_its_place(text: str, said: str, cli: Cli, api: FakeApi) -> None:
    path = write_config(cli, text)
    outcome = cli("whoami")
    assert outcome.code == 2
    assert f"error: {path}" in outcome.err
    assert said in outcome.err
    assert api.asked == []


def test_a_configuration_file_that_is_not_utf8(cli: Cli) -> None:
    path = cli.write("c.yaml", b"# fine\ntenant: \xff\n")
    assert f"{path}, line 2: the file is not UTF-8" in cli("whoami", "--config", path).err


def test_a_configuration_file_that_was_asked_for_must_exist(cli: Cli, api: FakeApi) -> None:
    outcome = cli("whoami", "--config", "/no/such.yaml")
    assert (outcome.code, api.asked) == (2, [])
    assert "there is no configuration file /no/such.yaml" in outcome.err


def test_an_unknown_key_is_noted_and_does_no_harm(cli: Cli) -> None:
    write_config(cli, "endpiont: x\n")
    outcome = cli("whoami")
    assert outcome.code == 0
    assert '"endpiont" is not a known key' in outcome.err


def test_a_server_that_is_not_there(cli: Cli) -> None:
    address = closed_address()
    outcome = cli("status", "--retry-for=0", LATTICE_API_URL=address)
    assert outcome.code == 6
    assert outcome.err.startswith(f"error: the server is not reachable at {address}: connection refused\n")
    assert "`lattice up`" in outcome.err
    assert "`make up`" in outcome.err


def test_an_address_that_is_none(cli: Cli) -> None:
    outcome = cli("status", "--api-url=ftp://x")
    assert (outcome.code, "--api-url" in outcome.err) == (2, True)


def test_verbose_says_who_is_asked(cli: Cli, api: FakeApi) -> None:
    assert f"Using {api.url} (LATTICE_API_URL)" in cli("whoami", "-v").err


def test_as_another_user_of_the_local_cluster(bare: Cli, api: FakeApi) -> None:
    write_cluster(bare, api)
    assert "start it with `lattice up --users bob`" in bare("--as", "bob", "whoami").err
    folder = bare.folder / ".local/state/lattice/local/users"
    folder.mkdir()
    (folder / "ada").write_text("token-of-ada\n")
    assert bare("whoami", "--as=ada").code == 0
    assert token_sent(api) == "token-of-ada"
    unknown = bare("--as", "bob", "whoami")
    assert (unknown.code, unknown.err) == (2, 'error: the local cluster has no user "bob"\n  hint: one of: ada\n')


def test_as_another_user_is_for_the_local_cluster_only(cli: Cli) -> None:
    outcome = cli("--as", "bob", "whoami")
    assert (outcome.code, "--as works only with the cluster on this machine" in outcome.err) == (2, True)
