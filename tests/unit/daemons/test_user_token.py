"""`lattice-server --user-token`: the first token of a cluster."""

import pytest

from lattice.api.auth.tokens import TokenVerifier
from lattice.config.load import ConfigError
from lattice.config.schema import ServerConfig
from lattice.config.sections.front import ApiSection
from lattice.daemons.programs.server import _print_user_token, build_parser
from lattice.ports.clock import SystemClock

SECRET = b"s" * 32
CONFIG = ServerConfig(data_dir="/tmp/x", api=ApiSection(hmac_secret="env://X"))


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    options = build_parser().parse_args(["--config", "server.yaml", "--user-token", *words])
    assert _print_user_token(CONFIG, SECRET, options) == 0
    return capsys.readouterr().out.strip()


def test_a_token_says_who_it_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    verifier = TokenVerifier(SECRET, SystemClock())
    ada = verifier.verify(printed(capsys, "ada", "--admin"))
    assert (ada.user, ada.tenants) == ("ada", ("default",))
    bob = verifier.verify(printed(capsys, "bob", "--tenant", "physics", "--valid-for=30d"))
    assert (bob.user, bob.tenants) == ("bob", ("physics",))
    assert bob.roles != ada.roles


def test_a_token_can_be_for_less_than_its_user_may(capsys: pytest.CaptureFixture[str]) -> None:
    verifier = TokenVerifier(SECRET, SystemClock())
    assert verifier.verify(printed(capsys, "ada", "--scope", "allocations:read")).roles == ("AllocationReader",)
    with pytest.raises(ConfigError, match="give one of them"):
        printed(capsys, "ada", "--admin", "--scope", "readonly")


@pytest.mark.parametrize("words", [["a b"], [""], ["ada", "--tenant", "x/y"], ["ada", "--valid-for", "long"]])
def test_what_is_no_name_or_time_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match=r"--user-token|--tenant|--valid-for"):
        printed(capsys, *words)
