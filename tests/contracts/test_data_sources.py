"""What every source of data has to do, whatever it stands on."""

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import obstore
import pytest

from lattice.integrations.directory.source import DirectorySource
from lattice.integrations.s3.archive import Archive
from lattice.integrations.s3.bucket import Bucket
from lattice.integrations.s3.signing import signed_url
from lattice.integrations.s3.source import PIECE, BucketSource
from lattice.integrations.s3.store import BucketStore
from lattice.ports.data.sources import Entry, Source, SourceChanged, SourceError, SourceGone
from tests.s3_server import S3Server, running_s3

_serial = itertools.count()
Place = Callable[[Mapping[str, bytes]], Callable[[str], Source]]


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with running_s3() as server:
        yield server


@pytest.fixture(params=["directory", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Puts files there; then opens sources below them."""
    if request.param == "directory":

        def put_files(files: Mapping[str, bytes]) -> Callable[[str], Source]:
            for name, data in files.items():
                (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / name).write_bytes(data)
            return lambda path: DirectorySource(str(tmp_path), f"{tmp_path}/{path}".rstrip("/"))

        return put_files
    server: S3Server = request.getfixturevalue("s3")
    bucket = server.make_bucket(f"source-{next(_serial)}")

    def put_objects(files: Mapping[str, bytes]) -> Callable[[str], Source]:
        for name, data in files.items():
            obstore.put(BucketStore(bucket)._store, name, data)
        return lambda path: BucketSource(bucket, path)

    return put_objects


def content(source: Source, entry: Entry, tmp_path: Path) -> tuple[bytes, int]:
    target, counts = tmp_path / f"copied{next(_serial)}", list[int]()
    fd = os.open(target, os.O_CREAT | os.O_RDWR)
    try:
        source.copy(entry, fd, counts.append)
    finally:
        os.close(fd)
    return target.read_bytes(), sum(counts)


def test_everything_is_listed_and_copied(place: Place, tmp_path: Path) -> None:
    files = {"set/a.bin": b"one", "set/deep/er/b.bin": os.urandom(3 * PIECE + 5), "set/empty": b"", "other": b"x"}
    source = place(files)("set")
    found = source.listing()
    assert [entry.path for entry in found.entries if entry.kind == "folder"] == ["", "deep", "deep/er"]
    copied = {f"set/{each.path}": content(source, each, tmp_path) for each in found.entries if each.kind == "file"}
    expected = {name: (data, len(data)) for name, data in files.items() if name.startswith("set/")}
    assert copied == expected
    assert (found.size, found.files) == (3 * PIECE + 8, 3)
    source.close()


def test_one_file_is_a_source_as_well(place: Place, tmp_path: Path) -> None:
    source = place({"set/a.bin": b"one"})("set/a.bin")
    found = source.listing()
    assert [(entry.path, entry.kind) for entry in found.entries] == [("", "file")]
    assert content(source, found.entries[0], tmp_path) == (b"one", 3)


def test_the_version_differs_exactly_when_something_does(place: Place) -> None:
    open_source = place({"set/a": b"1"})
    first = open_source("set").listing().version
    assert open_source("set").listing().version == first
    place({"set/a": b"22"})
    second = open_source("set").listing().version
    place({"set/b": b""})
    assert len({first, second, open_source("set").listing().version}) == 3


def test_what_is_not_there_is_gone(place: Place) -> None:
    with pytest.raises(SourceGone, match="does not exist"):
        place({"set/a": b"1"})("nothing").listing()


@pytest.mark.parametrize("after", [b"longer than before", b"1"])
def test_what_changed_since_it_was_listed_is_not_copied(place: Place, tmp_path: Path, after: bytes) -> None:
    open_source = place({"set/a": b"12345"})
    source = open_source("set")
    entry = source.listing().entries[-1]
    place({"set/a": after})
    with pytest.raises(SourceChanged):
        content(source, entry, tmp_path)


def test_a_copy_can_be_stopped(place: Place, tmp_path: Path) -> None:
    source = place({"set/a": b"12345"})("set")

    def stop(count: int) -> None:
        raise InterruptedError

    with pytest.raises((InterruptedError, SourceError)):
        source.copy(source.listing().entries[-1], os.open(tmp_path / "x", os.O_CREAT | os.O_WRONLY), stop)


def test_names_of_objects_that_are_no_paths_are_refused(s3: S3Server) -> None:
    bucket = s3.make_bucket(f"names-{next(_serial)}")
    store = BucketStore(bucket)._store
    obstore.put(store, "set/a", b"1")
    obstore.put(store, "set/a/b", b"1")
    with pytest.raises(SourceError, match="both an object a and objects below it"):
        BucketSource(bucket, "set").listing()


def test_no_symbolic_link_leads_a_mover_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "tier" / "mine").mkdir(parents=True)
    (tmp_path / "tier" / "way").symlink_to(tmp_path / "secret")
    root = str(tmp_path / "tier")
    for path in (f"{root}/way", f"{root}/way/inner"):
        with pytest.raises(SourceError, match="symbolic link"):
            DirectorySource(root, path).listing()
    with pytest.raises(SourceError, match="is not below"):
        DirectorySource(root, str(tmp_path / "secret")).listing()
    (tmp_path / "tier" / "mine" / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "tier" / "mine" / "pipe")
    found = DirectorySource(root, f"{root}/mine").listing()
    assert [(entry.path, entry.kind, entry.link) for entry in found.entries[1:]] == [("link", "link", "/etc/passwd")]


@pytest.mark.root
def test_who_may_read_a_directory_is_what_the_kernel_says(open_path: Path) -> None:
    (open_path / "open").mkdir()
    (open_path / "closed").mkdir(mode=0o700)
    (open_path / "closed" / "inner").mkdir(mode=0o755)
    root = str(open_path)
    assert DirectorySource(root, f"{root}/open").readable_by(["root", "nobody"]) == {"root": "", "nobody": ""}
    for path in (f"{root}/closed", f"{root}/closed/inner"):
        judged = DirectorySource(root, path).readable_by(["nobody", "no-such-user"])
        assert judged["nobody"] == f"nobody may not read {path}"
        assert "no account" in judged["no-such-user"]


def test_what_is_no_archive_has_nothing_to_restore(place: Place) -> None:
    source = place({"set/a": b"1"})("set")
    assert source.restoring(source.listing()) == ""


def _put_archived(bucket: Bucket, name: str, data: bytes) -> None:
    url = signed_url(bucket, "PUT", name)
    headers = {"x-amz-storage-class": "GLACIER", "content-type": "application/octet-stream"}
    address = urlsplit(url)
    with contextlib.closing(HTTPConnection(address.hostname or "", address.port)) as connection:
        connection.request("PUT", f"{address.path}?{address.query}", body=data, headers=headers)
        with connection.getresponse() as answer:
            assert answer.status == 200


def test_objects_in_an_archive_are_asked_for_and_looked_at_until_they_are_there(s3: S3Server) -> None:
    bucket = s3.make_bucket(f"cold-{next(_serial)}")
    obstore.put(BucketStore(bucket)._store, "set/warm", b"1")
    for name in ("set/a", "set/b c+ä"):
        _put_archived(bucket, name, b"22")
    source = BucketSource(bucket, "set", Archive(bucket, days=1, speed="Standard"))
    found = source.listing()
    assert source.restoring(found) == "2 of 3 objects are being restored from the archive"
    # The server restores at once, and says so from the next question on.
    assert source.restoring(found) == ""
    assert BucketSource(bucket, "set").restoring(found) == ""


def test_an_archive_that_is_gone_or_refuses_says_so(s3: S3Server) -> None:
    bucket = s3.make_bucket(f"cold-{next(_serial)}")
    archive = Archive(bucket, days=1, speed="Standard")
    with pytest.raises(SourceGone, match="does not exist"):
        archive.restoring(["set/nothing"])
    nobody = msgspec.structs.replace(bucket, endpoint="http://127.0.0.1:9")
    with pytest.raises(SourceError, match="cannot reach the store"):
        Archive(nobody, days=1, speed="Standard").restoring(["set/a"])


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exit 0", ""),
        ("echo tape 7 of 9; exit 75", "it is being restored from the archive: tape 7 of 9"),
        ("exit 75", "it is being restored from the archive"),
    ],
)
def test_a_program_of_the_site_brings_back_what_a_directory_has_in_an_archive(
    tmp_path: Path, script: str, said: str
) -> None:
    (tmp_path / "set").mkdir()
    program = tmp_path / "recall"
    program.write_text(f'#!/bin/sh\n[ "$1" = {tmp_path}/set ] || exit 9\n{script}\n')
    program.chmod(0o700)
    source = DirectorySource(str(tmp_path), f"{tmp_path}/set", [str(program)])
    assert source.restoring(source.listing()) == said


def test_an_archive_whose_program_fails_says_why(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    for recall in (["/bin/sh", "-c", "echo the robot is broken >&2; exit 4"], [str(tmp_path / "no-such-program")]):
        source = DirectorySource(str(tmp_path), f"{tmp_path}/set", recall)
        with pytest.raises(SourceError, match=r"the robot is broken|No such file"):
            source.restoring(source.listing())
