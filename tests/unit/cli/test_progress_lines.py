"""One line about what takes long: on a terminal, and nowhere else."""

from dataclasses import replace

from lattice.cli.progress import CLEAR, share_text
from tests.unit.cli.runner import Cli
from tests.unit.sdk.fake_api import FakeApi

BACKUP = {"path": "/srv/b1", "server": "s1", "created_at": "2026-03-01T12:00:00Z", "index": 7, "size_bytes": 2048}


def test_a_backup_says_on_a_terminal_that_it_is_being_written(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/admin/backup", BACKUP)
    quiet = cli("admin", "backup", "create")
    assert (quiet.code, quiet.err) == (0, "")
    watched = replace(cli, is_stderr_terminal=True)("admin", "backup", "create")
    assert watched.out == quiet.out
    assert watched.err == f"{CLEAR}the server is writing a backup{CLEAR}"
    assert replace(cli, is_stderr_terminal=True)("admin", "backup", "create", "--quiet").err == ""


def test_the_line_is_gone_before_an_error_is_said(api: FakeApi, cli: Cli) -> None:
    failed = replace(cli, is_stderr_terminal=True)("admin", "backup", "create")
    assert failed.code != 0
    assert f"{CLEAR}error: " in failed.err


def test_how_far_it_is_and_until_when() -> None:
    assert share_text("reading", 0, 100, 9.0, 0.0) == "reading: 0/100 done"
    assert share_text("reading", 100, 100, 9.0, 0.0) == "reading: 100/100 done"
    assert share_text("reading", 50, 100, 0.1, 0.0) == "reading: 50/100 done"
    text = share_text("reading", 1_500, 3_000, 60.0, 0.0)
    assert text.startswith("reading: 1,500/3,000 done, about ")
    assert text[-5:].count(":") == 1
