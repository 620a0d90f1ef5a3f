"""Secrets are found where references point, and a careless place is refused."""

from pathlib import Path

import pytest

from lattice.config.secrets import SecretError, resolve


def secret_file(tmp_path: Path, content: bytes, mode: int = 0o600) -> str:
    path = tmp_path / "secret"
    path.write_bytes(content)
    path.chmod(mode)
    return f"file://{path}"


def test_a_file_gives_its_content_without_the_line_break(tmp_path: Path) -> None:
    assert resolve(secret_file(tmp_path, b"abc\n"), key="k", mode="production") == b"abc"


def test_an_environment_variable_gives_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATTICE_TEST_SECRET", "xyz")
    assert resolve("env://LATTICE_TEST_SECRET", key="k", mode="production") == b"xyz"


def test_a_plain_secret_is_for_development_only() -> None:
    assert resolve("plain", key="k", mode="dev") == b"plain"
    with pytest.raises(SecretError, match=r"api\.hmac_secret: a secret may not stand in the file"):
        resolve("plain", key="api.hmac_secret", mode="production")


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SecretError, match="mode 0644"):
        resolve(secret_file(tmp_path, b"abc", 0o644), key="k", mode="dev")


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("file:///nowhere/at/all", "cannot read"),
        ("env://LATTICE_NOT_SET_ANYWHERE", "is not set"),
        ("vault://secret/x", "set vault.address"),
        ("ftp://x", "unknown kind of reference"),
        ("", "empty"),
    ],
)
def test_a_reference_that_leads_nowhere_is_named(reference: str, expected: str) -> None:
    with pytest.raises(SecretError, match=f"the.key: .*{expected}"):
        resolve(reference, key="the.key", mode="dev")


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SecretError, match="is empty"):
        resolve(secret_file(tmp_path, b"\n"), key="k", mode="dev")
