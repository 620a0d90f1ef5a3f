"""The command line of rm-replay."""

import json
from pathlib import Path

import pytest

from lattice.daemons.programs.replay import main

LINES = "".join(
    f"{number} {number * 3} -1 {20 + number} 3 -1 -1 3 60 -1 1 1 1 1 -1 -1 -1 -1\n" for number in range(1, 9)
)
KEYS = {"jobs", "avg_wait_s", "avg_bsld", "util", "makespan_s", "wait_p50_s", "wait_p99_s", "wait_max_s"}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "made-up.swf"
    path.write_text("; MaxProcs: 8\n" + LINES)
    return path


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
def test_json_is_all_there_is_on_stdout(trace: Path, policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(trace), "--policy", policy, "--mode", "r1", "--json"]) == 0
    captured = capsys.readouterr()
    assert set(json.loads(captured.out)) == KEYS
    assert captured.err == ""


def test_mode_full_replays_on_the_nodes_of_an_inventory(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory = tmp_path / "machine.yaml"
    inventory.write_text("nodes: [{names: 'n[1-3]', cpus: 4}]")
    full = ["run", str(trace), "--policy", "lattice", "--mode", "full", "--json"]
    assert main([*full, "--inventory", str(inventory)]) == 0
    on_three_nodes = json.loads(capsys.readouterr().out)
    assert set(on_three_nodes) == KEYS | {"vclusters"}
    assert on_three_nodes["jobs"] == 8
    assert main([*full, "--procs", "24"]) == 0
    assert json.loads(capsys.readouterr().out)["wait_max_s"] == 0 < on_three_nodes["wait_max_s"]


def test_textbook_policies_know_no_nodes(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(trace), "--policy", "easy", "--mode", "full"]) == 1
    assert "easy does not model nodes" in capsys.readouterr().err


def test_the_summary_is_for_people(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(trace), "--policy", "easy"]) == 0
    assert "=== RM-Replay Results: made-up, easy ===" in capsys.readouterr().out


def test_starts_are_written_where_asked(trace: Path, tmp_path: Path) -> None:
    starts = tmp_path / "starts.csv"
    assert main(["run", str(trace), "--policy", "fcfs", "--starts", str(starts), "--json"]) == 0
    lines = starts.read_text().splitlines()
    assert lines[:2] == ["id,submit,start,run,procs", "1,3,3,21,3"]
    assert len(lines) == 9


def test_the_same_trace_gives_the_same_output(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = []
    for _ in range(2):
        main(["run", str(trace), "--policy", "easy", "--json"])
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]


def test_procs_overrule_the_trace(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", str(trace), "--policy", "easy", "--procs", "100", "--json"])
    assert json.loads(capsys.readouterr().out)["avg_wait_s"] == 0


@pytest.mark.parametrize(
    ("text", "more", "complaint"),
    [
        (LINES, [], "does not contain the number of processors; set it with --procs"),
        (LINES + "oops\n", ["--procs", "8"], ":9: a line has 18 numbers, this one has 1"),
        ("; MaxProcs: 2\n" + LINES, [], "none of its 8 entries ran and fits 2 processors"),
    ],
)
def test_what_cannot_be_replayed_is_said_on_stderr(
    tmp_path: Path, text: str, more: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.swf"
    path.write_text(text)
    assert main(["run", str(path), "--policy", "easy", "--json", *more]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert complaint in captured.err


def test_skipped_lines_are_counted_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.swf"
    path.write_text("oops\n" + LINES)
    assert main(["run", str(path), "--policy", "easy", "--procs", "8", "--skip-bad", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["jobs"] == 8
    assert "1 bad lines skipped" in captured.err


def test_a_file_for_starts_that_cannot_be_written_is_named(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(trace), "--policy", "easy", "--starts", str(tmp_path / "no" / "where")]) == 1
    assert "where: No such file" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["run"], ["run", "x", "--policy", "best"], ["run", "x", "--procs", "0"]])
def test_a_wrong_command_line_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: rm-replay" in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--profile", "hpc"]])
def test_lattice_plans_the_same_work(trace: Path, more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(trace), "--policy", "lattice", "--json", *more]) == 0
    assert json.loads(capsys.readouterr().out)["jobs"] == 8


def test_weights_are_read_from_a_file(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = tmp_path / "weights.yaml"
    weights.write_text("mine:\n  wait_time: 0.3\n  expansion: 0.7\nyours:\n  priority: 1\n")
    command = ["run", str(trace), "--policy", "lattice", "--weights", str(weights), "--json"]
    assert main([*command, "--profile", "mine"]) == 0
    assert main(command) == 2
    assert "choose one with --profile: mine, yours" in capsys.readouterr().err
    assert main([*command, "--profile", "other"]) == 2
    assert 'has no profile "other"; it has: mine, yours' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("mine:\n  luck: 1\n", 'mine: unknown factor "luck"'),
        ("mine:\n  priority: -1\n", "mine: the weight of priority must be a number of at least 0"),
        ("mine:\n  priority: high\n", "mine: the weight of priority must be a number"),
        ("mine: {}\n", "mine: at least one weight must be above 0"),
        ("mine: 3\n", "mine: must hold weights by factor"),
        ("- 1\n", "must hold a name for each profile"),
        ("a: [\n", "line 2"),
    ],
)
def test_weights_that_cannot_be_used_are_refused(
    trace: Path, tmp_path: Path, text: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = tmp_path / "weights.yaml"
    weights.write_text(text)
    assert main(["run", str(trace), "--policy", "lattice", "--weights", str(weights)]) == 2
    assert complaint in capsys.readouterr().err


def test_a_profile_for_a_policy_that_has_none_is_refused(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", str(trace), "--policy", "easy", "--profile", "hpc"])
    assert "cannot be used with --policy easy" in capsys.readouterr().err
    assert main(["run", str(trace), "--policy", "lattice", "--profile", "x"]) == 2
    assert 'unknown profile "x"' in capsys.readouterr().err
