"""Programs of the site: what they are told, and that nothing of them is left."""

import asyncio
import os
from pathlib import Path

import pytest

from lattice.integrations.site_program.program import CommandProgram
from lattice.ports.site.site_program import ProgramFailed, SiteProgram
from lattice.testing.waiting import eventually


def tell(program: SiteProgram, document: bytes = b"{}") -> None:
    asyncio.run(program.tell(document))


def program(tmp_path: Path, script: str, *words: str, timeout_s: float = 60.0) -> CommandProgram:
    path = tmp_path / "program"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return CommandProgram([str(path), *words], timeout_s=timeout_s)


def is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


def test_it_gets_the_document_its_words_and_a_clean_environment(tmp_path: Path) -> None:
    told = tmp_path / "told"
    os.environ["LATTICE_SECRET_FOR_TESTS"] = "x"
    try:
        tell(program(tmp_path, f'(cat; echo " $1"; env) > {told}', "word"), b'{"a": 1}')
    finally:
        del os.environ["LATTICE_SECRET_FOR_TESTS"]
    text = told.read_text()
    assert text.startswith('{"a": 1} word\n')
    assert "LATTICE" not in text


def test_a_document_larger_than_a_pipe_that_nobody_reads_keeps_nobody_waiting(tmp_path: Path) -> None:
    tell(program(tmp_path, "exit 0"), b"x" * (1 << 20))


def test_a_failure_says_the_exit_code_and_what_was_complained(tmp_path: Path) -> None:
    with pytest.raises(ProgramFailed, match="ended with exit code 3: no mail today"):
        tell(program(tmp_path, "echo no mail today >&2; exit 3"))
    with pytest.raises(ProgramFailed, match="cannot be started: No such file"):
        tell(CommandProgram([str(tmp_path / "nothing")], timeout_s=5))


@pytest.mark.parametrize(("ending", "fails"), [("wait", True), ("exit 0", False)])
def test_whatever_it_started_is_killed_with_it(tmp_path: Path, ending: str, fails: bool) -> None:
    pids = tmp_path / "pids"
    script = f"sleep 600 & echo $! > {pids}\n{ending}"
    if fails:
        with pytest.raises(ProgramFailed, match="was killed: not done within"):
            tell(program(tmp_path, script, timeout_s=2.5))
    else:
        tell(program(tmp_path, script))
    child = int(pids.read_text())
    eventually(lambda: is_gone(child), "the child is gone", within_s=30)
