"""A program of Open MPI asks for the PMIx server before it starts; others do not."""

import fcntl
import os
import resource
import socket
from pathlib import Path

import pytest

from lattice.agent.shim.launch import Launch
from lattice.agent.shim.pmi.early import ELF, READY, REQUEST, ask_for_pmix

OFFERED = {b"PMIX_RANK": b"0"}


def _program(folder: Path, content: bytes) -> list[bytes]:
    path = folder / "program"
    path.write_bytes(content)
    return [os.fsencode(folder / "absent"), os.fsencode(path)]


def _launch(env: dict[bytes, bytes], candidates: list[bytes]) -> Launch:
    launch = object.__new__(Launch)
    launch.env, launch.candidates = env, candidates
    return launch


def _said(env: dict[bytes, bytes], candidates: list[bytes], above: int = 0) -> bytes:
    ours, theirs = socket.socketpair()
    if above:
        low, theirs = theirs, socket.socket(fileno=fcntl.fcntl(theirs.fileno(), fcntl.F_DUPFD_CLOEXEC, above))
        low.close()
    with ours, theirs:
        ours.send(READY)  # so that it does not wait
        ask_for_pmix(theirs.fileno(), _launch(env, candidates))
        theirs.shutdown(socket.SHUT_WR)
        return ours.recv(100)


@pytest.mark.parametrize("library", [b"libmpi.so.40", b"libmpi_mpifh.so.40"])
def test_a_program_of_open_mpi_asks(tmp_path: Path, library: bytes) -> None:
    assert _said(OFFERED, _program(tmp_path, ELF + b"\0" + library + b"\0")) == REQUEST


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 2000, reason="too few descriptors are allowed")
def test_a_rank_among_many_on_its_node_asks(tmp_path: Path) -> None:
    assert _said(OFFERED, _program(tmp_path, ELF + b"\0libmpi.so.40\0"), above=1500) == REQUEST


@pytest.mark.parametrize(
    "content",
    [ELF + b"\0libmpich.so.12\0", b"#!/bin/sh\n# libmpi.so.40\0", b"", ELF + b"x" * 20000 + b"libmpi.so.40\0"],
)
def test_other_programs_do_not_ask(tmp_path: Path, content: bytes) -> None:
    assert _said(OFFERED, _program(tmp_path, content)) == b""


def test_nothing_is_asked_where_pmix_is_not_offered(tmp_path: Path) -> None:
    assert _said({}, _program(tmp_path, ELF + b"\0libmpi.so.40\0")) == b""


def test_what_is_no_file_or_no_socket_is_passed_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert _said(OFFERED, [os.fsencode(tmp_path / "pipe")]) == b""
    assert _said(OFFERED, [os.fsencode(tmp_path)]) == b""
    reading, writing = os.pipe()
    ask_for_pmix(reading, _launch(OFFERED, _program(tmp_path, ELF + b"\0libmpi.so.40\0")))
    os.close(reading)
    os.close(writing)
