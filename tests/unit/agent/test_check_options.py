"""Which checks a node has: defaults, a file, a directory of programs."""

import json
from pathlib import Path

import pytest

from lattice.agent.checks.options import DEFAULTS, Check, UnusableChecks, choose_checks
from lattice.core.model.nodes.health import Consequence


def chosen(
    tmp_path: Path, text: str = "", directory: Path | None = None, name: str = "checks.toml"
) -> dict[str, Check]:
    file = tmp_path / name
    file.write_text(text)
    return {check.rule.name: check for check in choose_checks(file, directory)}


def program(folder: Path, name: str, mode: int = 0o755) -> None:
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(mode)


def test_without_a_word_the_checks_that_need_no_telling_run() -> None:
    names = {check.rule.name for check in choose_checks(None, None)}
    assert names == set(DEFAULTS) - {"mounts", "network"}
    assert {"disk_space", "gpu_count", "nics", "fingerprint"} <= {
        check.rule.name for check in choose_checks(None, None) if check.rule.required_for_ready
    }


def test_a_table_changes_a_built_in_check_or_switches_it_off(tmp_path: Path) -> None:
    text = """
[disk_space]
paths = ["/scratch"]
consequence = "drain"
failures = 3
[memory_errors]
enabled = false
[mounts]
paths = ["/home"]
"""
    checks = chosen(tmp_path, text)
    disk = checks["disk_space"]
    assert (disk.rule.consequence, disk.rule.failures_needed, disk.options.paths) == (
        Consequence.DRAIN,
        3,
        ("/scratch",),
    )
    assert disk.rule.required_for_ready
    assert "memory_errors" not in checks
    assert checks["mounts"].options.paths == ("/home",)


def test_a_table_with_argv_is_a_program_of_the_site(tmp_path: Path) -> None:
    tables = {"fans": {"argv": ["/opt/fans", "-q"], "period_s": 5, "timeout_s": 2, "required_for_ready": True}}
    fans = chosen(tmp_path, json.dumps(tables), name="checks.json")["fans"]
    assert fans.program is not None
    assert fans.program.argv == ("/opt/fans", "-q")
    assert (fans.rule.period_s, fans.rule.timeout_s, fans.rule.required_for_ready) == (5, 2, True)
    assert fans.rule.consequence is Consequence.WARN


def test_programs_of_a_directory_are_checks_and_can_be_changed_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "checks.d"
    folder.mkdir()
    program(folder, "fans.sh")
    program(folder, "readme", 0o644)
    program(folder, ".hidden")
    checks = chosen(tmp_path, '[fans]\nconsequence = "degrade"\n', folder)
    assert set(checks) - set(DEFAULTS) == {"fans"}
    fans = checks["fans"]
    assert fans.program is not None
    assert fans.program.argv == (str(folder / "fans.sh"),)
    assert fans.rule.consequence is Consequence.DEGRADE


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ("[", "checks.toml"),
        ("[fan]\nperiod_s = 5", "no such check, and no argv to make it one; there are clock_offset, disk_space"),
        ('[disk_space]\nargv = ["/bin/true"]', "the name of a built-in check"),
        ("[disk_space]\nperiods = 5", "unknown field `periods`"),
        ('[disk_space]\nhosts = ["a:1"]', "hosts means nothing to this check"),
        ('[disk_space]\nuser = "nobody"', "a built-in check has no user of its own"),
        ("[disk_space]\nperiod_s = 0.01", "period_s is 0.01; at least 1 is wanted"),
        ("[disk_space]\ntimeout_s = inf", "timeout_s is inf; at least 0.1 is wanted"),
        ("[disk_space]\nleast_free_mb = -1", "least_free_mb is -1; at least 0 is wanted"),
        ("[clock_offset]\nmost_offset_s = nan", "most_offset_s is nan; at least 0 is wanted"),
        ("[gpu_count]\nexpected = -3", "expected is -3; at least 0 is wanted"),
        ("[disk_space]\nfailures = 0", "failures is 0; at least 1 is wanted"),
        ('[disk_space]\nconsequence = "reboot"', "Invalid enum value 'reboot'"),
        ('[network]\nhosts = ["here"]', "'here' is not host:port"),
        ('[x]\nargv = ["/x"]\nuser = "nobody-of-that-name"', "there is no user 'nobody-of-that-name' on this node"),
        ('["a b"]\nargv = ["/x"]', "'a b' cannot be the name of a check"),
        ("disk_space = 3", "Expected `object`, got `int`"),
    ],
)
def test_what_is_wrong_is_said_before_the_agent_starts(tmp_path: Path, text: str, trouble: str) -> None:
    with pytest.raises(UnusableChecks, match=trouble.replace("[", r"\[")):
        chosen(tmp_path, text)


def test_a_directory_that_is_not_there_or_has_two_checks_of_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableChecks, match="No such file"):
        choose_checks(None, tmp_path / "nowhere")
    program(tmp_path, "disk_space")
    with pytest.raises(UnusableChecks, match="'disk_space' is taken"):
        choose_checks(None, tmp_path)
