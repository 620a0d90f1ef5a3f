"""The line of sbcast, and the step that it becomes."""

from pathlib import Path

import pytest

from lattice.cli.slurm.sbcast import Wrong, main, read_line, srun_line
from lattice.slurm.version import VERSION

INSIDE = {"SLURM_JOB_ID": "17", "SLURM_JOB_NUM_NODES": "3"}


def test_a_file_goes_to_one_task_on_each_node(tmp_path: Path) -> None:
    source = tmp_path / "data"
    source.write_text("x")
    source.chmod(0o640)
    options, words = read_line(["-fp", "-F4", str(source), "/t/d"])
    line, read = srun_line(options, words, INSIDE, "/bin")
    assert read == str(source)
    assert line[:6] == ["/bin/srun", "--jobid=17", "--overlap", "-N3", "-n3", "--ntasks-per-node=1"]
    assert line[-5:-2] == ["/t/d", "yes", "640"]


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_the_version_is_that_of_the_other_commands(
    flag: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["sbcast", flag])
    with pytest.raises(SystemExit) as ended:
        main("sbcast")
    assert (ended.value.code, capsys.readouterr().out) == (0, f"slurm {VERSION}\n")


@pytest.mark.parametrize(
    ("argv", "variables", "words"),
    [
        (["{}"], INSIDE, "needs a file and a destination"),
        (["{}", "/t/d"], {}, "need a job id"),
        (["{}", "/t/d", "--bogus"], INSIDE, "unrecognized option --bogus"),
        (["/", "/t/d"], INSIDE, "is not a file"),
        (["{}", "/t/d", "--jobid"], INSIDE, "needs a value"),
    ],
)
def test_a_wrong_line_is_refused(argv: list[str], variables: dict[str, str], words: str, tmp_path: Path) -> None:
    source = tmp_path / "data"
    source.write_text("x")
    with pytest.raises(Wrong, match=words):
        srun_line(*read_line([word.format(source) for word in argv]), variables, "/bin")
