"""`lattice-agent --hollow`: what it takes, and what it says when it cannot start."""

from pathlib import Path

import pytest

from lattice.agent.hollow.faults import FaultKind
from lattice.daemons.agent.hollow import build_parser
from lattice.daemons.programs.agent import main


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("0",), "between 1 and 100000"),
        (("5",), "no server given"),
        (("5", "--servers", "nowhere"), "not a server address"),
        (("5", "--servers", "h:1"), "no token given"),
        (("5", "--servers", "h:1", "--enroll-servers", "h:2"), "share one identity"),
    ],
)
def test_what_cannot_be_meant_is_said(
    words: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LATTICE_AGENT_ENDPOINTS", "LATTICE_AGENT_TOKEN", "LATTICE_AGENT_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    assert main(["--hollow", *words]) == 2
    assert why in capsys.readouterr().err


def test_a_hardware_file_that_cannot_be_read_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LATTICE_AGENT_TOKEN", "t")
    assert main(["--hollow=5", "--servers", "h:1", "--hardware", str(tmp_path / "none.json")]) == 2
    assert "none.json" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("--fault", "noise=1%"), ("--work", "soon")])
def test_a_fault_or_duration_that_cannot_be_read_is_an_error_of_usage(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--hollow", "5", *words])
    assert words[0] in capsys.readouterr().err


def test_options_become_faults_and_work() -> None:
    options = build_parser().parse_args(["--hollow", "5", "--fault", "flap=20%:3s", "--work", "1s..2s"])
    assert [(fault.kind, fault.for_s) for fault in options.fault] == [(FaultKind.FLAP, 3.0)]
    assert (options.work.shortest_s, options.work.longest_s) == (1.0, 2.0)
