"""Which MPI library a process has mapped, as its maps say."""

import pytest

from lattice.agent.shim.pmi.libraries import library_in, loaded_library

LINE = b"7f00-7f01 r-xp 00000000 fe:00 1234      /usr/lib/x86_64-linux-gnu/%s\n"


@pytest.mark.parametrize("name", [b"libmpi.so.40.30.4", b"libmpich.so.12.2.0", b"libmpi_cray.so.12"])
def test_an_mpi_library_is_recognised_by_its_name(name: bytes) -> None:
    assert library_in(LINE % b"libc.so.6" + LINE % name) == name.decode()


@pytest.mark.parametrize("name", [b"libc.so.6", b"libmpiwrap.so", b"libmpifr.so.4", b"mylibmpi.so"])
def test_other_files_are_not_taken_for_one(name: bytes) -> None:
    assert library_in(LINE % name) == ""


def test_a_group_that_is_gone_has_no_library() -> None:
    assert loaded_library("/nowhere") == ""
