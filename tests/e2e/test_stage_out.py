"""Results that leave the node after the work: whole, whoever is killed meanwhile; stopped by a second cancel alone."""

import hashlib
import json
import os
import pwd
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import obstore
import pytest

from lattice.api.auth.tokens import sign_token
from lattice.integrations.s3.store import BucketStore
from lattice.testing import LocalCluster, eventually
from tests.conftest import require_program
from tests.s3_server import S3Server, running_s3

pytestmark = [pytest.mark.e2e, pytest.mark.root]

FILES = 2_000  # copied for a second or more
MANY = (
    'mkdir $LATTICE_SCRATCH/results && python3 -c "\n'
    "import os\n"
    f"for i in range({FILES}):\n"
    "    open(f'{os.environ[\\\"LATTICE_SCRATCH\\\"]}/results/{i:05d}', 'w').write(f'{i}\\n' * 100)\n"
    '"'
)


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """Not in /tmp, which the runs do not see."""
    folder = Path(tempfile.mkdtemp(prefix="lattice-", dir="/var/tmp"))
    folder.chmod(0o755)
    (folder / "warm").mkdir()
    (folder / "cluster").mkdir()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def warm(place: Path) -> Path:
    return place / "warm"


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with running_s3() as server:
        for name in ("training", "results"):
            server.make_bucket(name)
        yield server


@pytest.fixture(scope="module")
def cluster(place: Path, warm: Path, s3: S3Server) -> Iterator[LocalCluster]:
    bucket = {"url": "s3://training", "endpoint": s3.endpoint, "key_id": "test", "key_secret": "env://HOME"}
    results = {**bucket, "url": "s3://results", "writable": True}
    tiers = json.dumps([{"url": f"file://{warm}"}, bucket, results])
    settings = {"data.tiers.warm": tiers, "data.mover_timeout": "2s"}
    arguments = ["--scratch-dir", str(place / "scratch")]
    with LocalCluster(nodes=2, settings=settings, arguments=arguments, directory=place / "cluster") as cluster:
        yield cluster


def out(target: Path | str, source: str = "results") -> dict[str, Any]:
    return {"stage_out": [{"source": source, "target": f"file://{target}"}]}


def has_begun(target: Path) -> bool | None:
    return (target.is_dir() and any(target.iterdir())) or None


def check_whole(target: Path) -> None:
    assert sorted(os.listdir(target)) == [f"{place:05d}" for place in range(FILES)]
    for place in range(0, FILES, 7):
        assert (target / f"{place:05d}").read_text() == f"{place}\n" * 100


def leaves_nothing(place: Path) -> bool | None:
    """Of any run on any node."""
    return not [path for path in place.glob("scratch/*/*") if path.name != "kept"] or None


def test_whoever_waits_for_the_work_finds_its_results(cluster: LocalCluster, place: Path, warm: Path) -> None:
    script = "mkdir $LATTICE_SCRATCH/results; echo 42 > $LATTICE_SCRATCH/results/answer"
    said = cluster.cli("submit", "--wait", "--stage-out", f"results:{warm}/plain/{{id}}", "--", "sh", "-c", script)
    assert said.returncode == 0, said
    (folder,) = (warm / "plain").iterdir()
    assert (folder / "answer").read_text() == "42\n"
    details = cluster.get(f"/allocations/{folder.name}?details=true")["details"]
    assert details["stage_out"] == [{"source": "results", "target": f"file://{warm}/plain/{{id}}", "made": False}]
    eventually(lambda: leaves_nothing(place), "scratch to be gone")


def test_results_in_scratch_of_a_size_are_copied_too(cluster: LocalCluster, warm: Path) -> None:
    script = "mkdir $LATTICE_SCRATCH/results; head -c 3000000 /dev/zero | tr '\\0' x > $LATTICE_SCRATCH/results/large"
    ended = cluster.run(script, scratch="32M", data=out(warm / "sized"))
    assert (ended["state"], ended["message"]) == ("Completed", "")
    assert (warm / "sized" / "large").read_bytes() == b"x" * 3_000_000


def bucket_out(target: str, source: str = "results") -> dict[str, Any]:
    return {"stage_out": [{"source": source, "target": f"s3://{target}"}]}


def objects_of(s3: S3Server, prefix: str) -> dict[str, bytes]:
    store = BucketStore(s3.bucket("results"))._store
    names = [each["path"] for chunk in obstore.list(store, prefix) for each in chunk]
    return {name.removeprefix(f"{prefix}/"): bytes(obstore.get(store, name).bytes()) for name in names}


def test_results_go_to_a_bucket_by_requests_that_servers_sign(cluster: LocalCluster, place: Path, s3: S3Server) -> None:
    script = (
        "cd $LATTICE_SCRATCH && mkdir -p results/deep && echo 42 > results/answer && printf x > 'results/deep/a b+ü'"
        " && head -c 70000000 /dev/zero | tr '\\0' y > results/large && touch results/empty && ln -s answer results/link"
    )
    ended = cluster.run(script, data=bucket_out("results/plain/{id}"))
    assert (ended["state"], ended["message"]) == ("Completed", "")
    found = objects_of(s3, f"plain/{ended['id']}")
    large = found.pop("large")  # more than one part
    assert (len(large), set(large)) == (70_000_000, {ord("y")})
    assert found == {"answer": b"42\n", "deep/a b+ü": b"x", "empty": b""}
    eventually(lambda: leaves_nothing(place), "scratch to be gone")
    one = cluster.run(
        "echo 1 > $LATTICE_SCRATCH/one", scratch="32M", data=bucket_out("results/single/{node}.txt", "one")
    )
    assert one["message"] == ""
    assert objects_of(s3, "single") == {f"{one['nodes'][0]}.txt": b"1\n"}


def test_work_finds_scratch_and_output_under_names_of_their_own(
    cluster: LocalCluster, place: Path, s3: S3Server
) -> None:
    script = (
        "test $LATTICE_SCRATCH -ef /scratch/local/$LATTICE_ALLOC_ID && echo the same; ls /scratch/local | wc -l;"
        " echo 42 > $LATTICE_OUTPUT/answer"
    )
    done = cluster.run(script, data={"output": "s3://results/output/{id}"})
    assert (done["message"], cluster.logs(done["id"])) == ("", "the same\n1\n")
    assert objects_of(s3, f"output/{done['id']}") == {"answer": b"42\n"}
    sized = cluster.run("cd /scratch/local/$LATTICE_ALLOC_ID && df -m . | tail -1 | awk '{print $2}'", scratch="32M")
    assert int(cluster.logs(sized["id"])) < 64
    bare = cluster.run("ls /scratch/local", data={"defaults": False})
    assert cluster.logs(bare["id"]) == ""
    eventually(lambda: leaves_nothing(place), "scratch to be gone")


@pytest.mark.parametrize("role", ["agent", "server"])
def test_no_result_for_a_bucket_is_lost_when_somebody_is_killed(
    cluster: LocalCluster, place: Path, s3: S3Server, role: str
) -> None:
    script = "mkdir $LATTICE_SCRATCH/results; for i in $(seq 400); do echo $i > $LATTICE_SCRATCH/results/$i; done"
    number = cluster.submit(script, data=bucket_out(f"results/killed-{role}"))["id"]
    eventually(lambda: objects_of(s3, f"killed-{role}") or None, "the first result", within_s=60)
    cluster.kill(role, cluster.allocation(number)["nodes"][0] if role == "agent" else None)
    if role == "server":
        cluster.wait_serving()
    ended = cluster.wait_end(number, within_s=90)
    assert (ended["state"], ended["message"]) == ("Completed", "")
    assert objects_of(s3, f"killed-{role}") == {str(i): f"{i}\n".encode() for i in range(1, 401)}
    eventually(lambda: leaves_nothing(place), "scratch to be gone")


@pytest.mark.parametrize("role", ["agent", "shim", "mover", "server"])
def test_no_byte_is_lost_when_somebody_is_killed(cluster: LocalCluster, place: Path, warm: Path, role: str) -> None:
    target = warm / f"killed-{role}"
    number = cluster.submit(MANY, data=out(target))["id"]
    eventually(lambda: has_begun(target), "the first result", within_s=60, every_s=0.01)
    assert len(os.listdir(target)) < FILES
    node = cluster.allocation(number)["nodes"][0] if role in ("agent", "shim") else None
    cluster.kill(role, node)
    if role == "server":
        cluster.wait_serving()
    ended = cluster.wait_end(number, within_s=90)
    assert ended["state"] == "Completed"
    check_whole(target)
    eventually(lambda: leaves_nothing(place), "scratch to be gone")


def test_walltime_ends_the_work_and_not_the_copying(cluster: LocalCluster, warm: Path) -> None:
    target = warm / "walltime"
    number = cluster.submit(f"{MANY}; echo written; sleep 600", lifecycle={"walltime": 600}, data=out(target))["id"]
    cluster.wait_state(number, "Running")
    eventually(lambda: cluster.logs(number) == "written\n" or None, "all results to be written")
    status, answer = cluster.request("PATCH", f"/allocations/{number}", {"walltime": "1s"})
    assert status == 200, answer
    ended = cluster.wait_end(number, within_s=90)
    assert (ended["state"], ended["cause"]) == ("Failed", "walltime")
    check_whole(target)


class _Stopped:
    """The program that copies, stopped soon after its start until told otherwise: what it copies has to be much."""

    def __enter__(self) -> "_Stopped":
        self._ends = threading.Event()
        self.found: list[int] = []
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._ends.is_set():
            for name in os.listdir("/proc"):
                try:
                    words = Path(f"/proc/{name}/cmdline").read_bytes() if name.isdigit() else b""
                    if b"results/copier.py" in words and int(name) not in self.found:
                        os.kill(int(name), signal.SIGSTOP)
                        self.found.append(int(name))
                except OSError:
                    continue
            self._ends.wait(0.01)

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()


def test_the_second_cancel_stops_it_and_the_rest_is_kept_and_named(cluster: LocalCluster, warm: Path) -> None:
    target = warm / "cancelled"
    with _Stopped() as stopped:
        number = cluster.submit(f"{MANY} && date > $LATTICE_SCRATCH/results/date", data=out(target))["id"]
        eventually(lambda: stopped.found or None, "the copying to begin")
        cluster.delete(f"/allocations/{number}")
        assert cluster.wait_state(number, "Stopping")["state"] == "Stopping"
        cluster.delete(f"/allocations/{number}")
        ended = cluster.wait_end(number)
    assert ended["state"] == "Cancelled"
    assert "given up before all was copied; all of it is kept on node" in ended["message"]
    kept = Path(ended["message"].partition(" in ")[2].partition(" until ")[0])
    assert (kept / "results" / "date").exists()


def test_other_nodes_are_free_while_results_are_copied(cluster: LocalCluster, place: Path, warm: Path) -> None:
    target = warm / "several"
    with _Stopped() as stopped:
        script = f"lattice launch -n 2 true && {MANY} && date > $LATTICE_SCRATCH/results/date"
        number = cluster.submit(script, data=out(target), resources={"nodes": 2})["id"]
        eventually(lambda: stopped.found or None, "the copying to begin")
        eventually(lambda: len(cluster.allocation(number)["nodes"]) == 1 or None, "the other node to be given back")
        (first,) = cluster.allocation(number)["nodes"]
        other = cluster.run("echo $LATTICE_NODE_ID", data={"defaults": False})
        assert other["nodes"] != [first]
        assert cluster.allocation(number)["state"] == "Running"
    for copier in stopped.found:
        os.kill(copier, signal.SIGCONT)
    ended = cluster.wait_end(number)
    assert (ended["state"], sorted(ended["nodes"])) == ("Completed", sorted([first, *other["nodes"]]))
    assert (target / "date").exists()
    eventually(lambda: leaves_nothing(place), "scratch to be gone")


def test_what_cannot_be_is_refused_by_name(cluster: LocalCluster, warm: Path) -> None:
    for data, more, said in (
        (out("/nowhere"), {}, "is in no tier"),
        (bucket_out("training/x"), {}, "results may not go to s3://training"),
        (bucket_out("nowhere/x"), {}, "is in no bucket that tenant"),
        (bucket_out("results/x"), {"tasks": "0-3"}, "every task would write to the same place"),
        (out(warm, "../x"), {}, "is not a path in the scratch directory"),
        (out(warm / "x"), {"tasks": "0-3"}, "every task would write to the same place"),
        (out(warm / "x"), {"per_node": True}, "every node would write to the same place"),
        (out(warm / "x"), {"lifecycle": {"type": "unbounded"}}, "is for work that ends"),
    ):
        status, answer = cluster.request("POST", "/allocations", {"entrypoint": ["true"], "data": data, **more})
        assert status == 400
        assert said in json.dumps(answer)


GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "data.md"


def test_the_guide_leads_from_a_bucket_to_a_model(cluster: LocalCluster, place: Path, warm: Path, s3: S3Server) -> None:
    here = place / "here"
    here.mkdir()
    store = BucketStore(s3.bucket("training"))._store
    objects = {f"imagenet/{place % 2}/{place}": os.urandom(10_000) for place in range(6)}
    for name, data in objects.items():
        obstore.put(store, name, data)
    text = GUIDE.read_text()
    (here / "train.sh").write_text(text.partition("```sh\n")[2].partition("```")[0])
    session = text.partition("```console\n")[2].partition("```")[0].splitlines()
    commands = [line[2:] for line in session if line.startswith("$ ")]
    assert len(commands) == 3
    said = [cluster.cli(*_words(line, warm), cwd=here).stdout for line in commands]
    assert said[0] == session[1] + "\n"
    (folder,) = (warm / "models").iterdir()
    whole = hashlib.sha256(b"".join(objects[name] for name in sorted(objects))).hexdigest()
    assert (folder / "weights").read_text().split()[0] == whole
    assert cluster.logs(folder.name) == "read 6 files\n"
    assert "s3://training/imagenet" in said[2]


def _words(line: str, warm: Path) -> list[str]:
    return shlex.split(line.replace("/capacity", str(warm)))[1:]


def token_of(cluster: LocalCluster, user: str) -> str:
    secret = (cluster.directory / "secret").read_bytes().strip()
    return sign_token(secret, user=user, tenants=["default"], scope="", issued_at_s=int(time.time()), lifetime_s=600)


@pytest.fixture
def stranger(place: Path) -> Iterator[str]:
    """The name of another account."""
    require_program("useradd")
    name = f"stranger{os.getpid()}"
    home = ["--create-home", "--home-dir", str(place / name)]
    subprocess.run(["useradd", *home, "--shell", "/bin/sh", name], check=True)
    yield name
    subprocess.run(["userdel", name], check=True)


def test_no_one_reaches_staged_data_of_another_by_path_mount_or_cache(
    cluster: LocalCluster, place: Path, warm: Path, stranger: str
) -> None:
    for folder in (place, warm, place / "cluster"):
        folder.chmod(0o755)
    private, theirs = warm / "private", warm / "theirs"
    for folder, uid in ((private, 0), (theirs, pwd.getpwnam(stranger).pw_uid)):
        folder.mkdir(mode=0o700)
        (folder / "secret").write_text("the secret of " + folder.name)
        (folder / "secret").chmod(0o600)
        for path in (folder, folder / "secret"):
            os.chown(path, uid, uid)
    (theirs / "link").symlink_to(private / "secret")
    (theirs / "folder").symlink_to(private)
    mounts = {each.name: hot_mount(each) for each in (private, theirs)}
    other = token_of(cluster, stranger)
    made = submit_as(cluster, cluster.token, "cat /data/set/secret; sleep 60", mounts["private"])
    assert made[0] == 201, made
    cluster.wait_state(made[1]["id"], "Running")
    assert submit_as(cluster, other, "cat /data/set/secret", mounts["private"])[0] == 400
    hot = cluster.directory / "tiers" / "hot"
    script = (
        f"cat /data/set/secret; cat {hot}/*/secret {private}/secret /data/set/link /data/set/folder/secret; ls {hot};"
        " cat /proc/[0-9]*/root/data/set/secret"
    )
    done = submit_as(cluster, other, script, mounts["theirs"])
    ended = cluster.wait_end(done[1]["id"])
    assert ended["exit_code"] is not None, ended["message"]
    out = cluster.logs(done[1]["id"])
    assert out == "the secret of theirs" * out.count("the secret of theirs")
    assert out.count("the secret of theirs") >= 1
    listed = cluster.request("GET", "/data", token=other)[1]["items"]
    assert [each["source"] for each in listed] == [f"file://{theirs}"]
    cluster.delete(f"/allocations/{made[1]['id']}")


def hot_mount(source: Path) -> dict[str, Any]:
    return {"mounts": [{"source": str(source), "target": "/data/set", "tier_hint": "hot"}]}


def submit_as(cluster: LocalCluster, token: str, script: str, data: dict[str, Any]) -> tuple[int, Any]:
    body = {"entrypoint": ["sh", "-c", script], "cwd": "/", "data": data}
    return cluster.request("POST", "/allocations", body, token=token, request_id=os.urandom(8).hex())
