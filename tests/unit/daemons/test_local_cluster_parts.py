"""The parts of a local cluster that need no server: who is who, what is written, what is said."""

import asyncio
import errno
import json
import os
import signal
import socket
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import jwt
import pytest
import yaml

from lattice.daemons.local import cluster as cluster_module
from lattice.daemons.local import commands
from lattice.daemons.local import record as record_module
from lattice.daemons.local.credentials import LIFETIME_S, current_user, ensure_secret, read_users, write_tokens
from lattice.daemons.local.keeper import Keeper, Program
from lattice.daemons.local.layout import Layout, UntrustedFolder, take_lock, write_private
from lattice.daemons.local.logtail import tail
from lattice.daemons.local.options import Options, StartFailed
from lattice.daemons.local.ports import choose_port
from lattice.daemons.local.processes import Process, is_alive, process_of, role_of, stop
from lattice.daemons.local.record import Record
from lattice.daemons.local.restarts import LONGEST_DELAY_S, RestartPolicy
from lattice.testing import eventually, scenario
from lattice_sdk.site.local_cluster import default_directory, read_cluster


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path / "cluster")
    made.prepare()
    return made


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_first_deaths_are_answered_at_once() -> None:
    policy = RestartPolicy()
    assert [policy.delay_after(0.1) for _ in range(3)] == [0, 0, 0]


def test_repeated_quick_deaths_slow_down_up_to_a_bound() -> None:
    policy = RestartPolicy()
    delays = [policy.delay_after(0.1) for _ in range(20)]
    assert delays == sorted(delays)
    assert delays[3] > 0
    assert delays[-1] == LONGEST_DELAY_S


def test_a_long_life_forgives_earlier_deaths() -> None:
    policy = RestartPolicy()
    for _ in range(10):
        policy.delay_after(0.1)
    assert policy.delay_after(60) == 0
    assert policy.delay_after(0.1) == 0


def test_files_with_secrets_are_private_at_any_umask(layout: Layout) -> None:
    before = os.umask(0)
    try:
        write_tokens(layout, ensure_secret(layout))
        write_private(layout.cluster_file, b"{}")
    finally:
        os.umask(before)
    assert {mode(path) for path in (layout.secret, layout.token, layout.agent_token, layout.cluster_file)} == {0o600}
    assert mode(layout.root) == 0o700


def test_a_folder_that_exists_keeps_its_files_and_mode(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir(mode=0o755)
    (folder / "thesis.tex").write_text("x")
    Layout(folder).prepare()
    assert (mode(folder), mode(folder / "data"), mode(folder / "agents")) == (0o755, 0o700, 0o711)
    assert (folder / "thesis.tex").read_text() == "x"


def test_the_secret_is_kept_between_starts(layout: Layout) -> None:
    assert ensure_secret(layout) == ensure_secret(layout)


def test_one_holder_of_a_cluster_at_a_time(layout: Layout) -> None:
    held = take_lock(layout.lock)
    assert held is not None
    assert take_lock(layout.lock) is None
    os.close(held)
    again = take_lock(layout.lock)
    assert again is not None
    os.close(again)


def test_a_process_is_its_pid_and_its_start(sleeper: "subprocess.Popen[bytes]") -> None:
    process = process_of(sleeper.pid)
    assert process is not None
    assert is_alive(process)
    assert not is_alive(Process(process.pid, process.started + 1))


def test_stop_leaves_a_stranger_with_the_same_pid_alone(sleeper: "subprocess.Popen[bytes]") -> None:
    process = process_of(sleeper.pid)
    assert process is not None
    assert stop([Process(process.pid, process.started - 1)], 0.1) == []
    assert sleeper.poll() is None


def test_stop_ends_a_process_that_is_stopped(sleeper: "subprocess.Popen[bytes]") -> None:
    process = process_of(sleeper.pid)
    assert process is not None
    os.kill(sleeper.pid, 19)
    assert stop([process], 5) == []
    assert not is_alive(process)


def test_stop_kills_what_ignores_it() -> None:
    stubborn = subprocess.Popen(["sh", "-c", "trap '' TERM; echo; while :; do sleep 1; done"], stdout=subprocess.PIPE)
    assert stubborn.stdout is not None
    stubborn.stdout.readline()
    process = process_of(stubborn.pid)
    assert process is not None
    assert stop([process], 0.2) == []
    assert stubborn.wait() == -9
    stubborn.stdout.close()


def test_members_are_known_by_their_arguments(layout: Layout) -> None:
    python = "/x/bin/python"
    state = str(layout.state_of("n1"))
    server = [python, "/x/bin/lattice-server", "--config", str(layout.server_config)]
    agent = [python, "/x/bin/lattice-agent", "--node-id", "n1", "--state-dir", state]
    shim = [python, "-S", "-E", "/x/lattice/agent/shim.py", "--state-dir", state, "--detach"]
    assert role_of(server, layout) == ("server", "server")
    assert role_of(agent, layout) == ("agent", "n1")
    assert role_of(shim, layout) == ("shim", "n1")
    assert role_of([python, "/x/bin/lattice-supervisor", "stop", "--dir", str(layout.root)], layout) is None
    assert role_of([], layout) is None
    assert role_of(["vi", str(layout.server_config)], layout) is None
    assert role_of([*agent[:-1], "/elsewhere/agents/n1"], layout) is None


def test_the_record_follows_every_change(layout: Layout) -> None:
    record = Record(layout, api_url="http://127.0.0.1:1", grpc="127.0.0.1:2")
    record.put("agent", "n10", os.getpid())
    record.put("agent", "n2", os.getpid())
    record.put("server", "server", os.getpid(), ("http://127.0.0.1:1",))
    cluster = read_cluster(layout.root)
    assert cluster is not None
    assert [process.name for process in cluster.processes] == ["server", "n2", "n10"]
    record.drop("server", "server")
    cluster = read_cluster(layout.root)
    assert cluster is not None
    assert cluster.of_role("server") == ()
    shape = json.loads(layout.cluster_file.read_bytes())
    assert shape["processes"][0].keys() >= {"role", "name", "pid", "addresses"}


@pytest.mark.parametrize("content", [b'{"proc', b"", None], ids=["garbage", "empty", "gone"])
def test_a_record_that_somebody_spoilt_is_mended(layout: Layout, content: bytes | None) -> None:
    record = Record(layout, api_url="http://127.0.0.1:1", grpc="")
    record.put("agent", "n1", os.getpid())
    if content is None:
        layout.cluster_file.unlink()
    else:
        layout.cluster_file.write_bytes(content)
    keep(record, lambda: read_cluster(layout.root) is not None)


def test_a_record_that_could_not_be_written_is_written_when_it_can_be(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Record(layout, api_url="http://127.0.0.1:1", grpc="")
    record.put("agent", "n1", os.getpid())

    def no_room(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(record_module, "write_private", no_room)
        record.drop("agent", "n1")
    keep(record, lambda: (found := read_cluster(layout.root)) is not None and not found.processes)


def keep(record: Record, until: Callable[[], bool]) -> None:
    async def scenario() -> None:
        keeping = asyncio.create_task(record.keep())
        await asyncio.to_thread(eventually, until, "cluster.json true again")
        keeping.cancel()

    asyncio.run(scenario())


def test_a_damaged_record_is_no_cluster(layout: Layout) -> None:
    layout.cluster_file.write_bytes(b'{"processes": [{"ro')
    assert read_cluster(layout.root) is None


def test_a_port_in_use_is_refused_with_its_number() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartFailed, match=f"port {port} .* in use") as refusal:
            choose_port(port, "--rest-port")
    assert "--rest-port 0" in refusal.value.hint


def test_port_zero_is_a_free_one() -> None:
    port = choose_port(0, "--rest-port")
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_children_get_paths_and_no_secrets(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATTICE_TOKEN", "s3cret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    secret = ensure_secret(layout)
    write_tokens(layout, secret)
    words = [
        *commands.server_command(layout, Options(), "server"),
        *commands.agent_command(layout, Options(), "n1", "h:1"),
    ]
    shown = " ".join([*words, *commands.environment().values()])
    assert "s3cret" not in shown
    assert secret.decode() not in shown
    assert layout.agent_token.read_text().strip() not in shown
    assert current_user() in words


def test_a_cluster_of_an_earlier_release_gets_what_this_one_can_do(layout: Layout) -> None:
    place = commands.ServerPlace(name="server", rest=1, grpc=2, proxy=3)
    commands.write_server_config(layout, place, [place], "")
    written = yaml.safe_load(layout.config_of("server").read_text())
    assert written["upgrade"] == {"auto_finalize": True}
    assert written["api"]["proxy_listen"] == "127.0.0.1:3", "pages keep their address when the server is replaced"


def test_images_of_a_registry_take_the_place_of_the_directory(layout: Layout) -> None:
    place = commands.ServerPlace(name="server", rest=1, grpc=2, proxy=3)
    commands.write_server_config(layout, place, [place], "", ["images.url=oci://registry.example/site"])
    assert "directory" not in yaml.safe_load(layout.config_of("server").read_text())["images"]
    commands.write_server_config(layout, place, [place], "", ["rate_limits.submit=1"])
    assert yaml.safe_load(layout.config_of("server").read_text())["images"] == {"directory": str(layout.images)}


def test_the_default_folder_follows_the_environment() -> None:
    assert default_directory({"LATTICE_DIR": "/d", "HOME": "/h"}) == Path("/d")
    assert default_directory({"XDG_STATE_HOME": "/s", "HOME": "/h"}) == Path("/s/lattice/local")
    assert default_directory({"HOME": "/h"}) == Path("/h/.local/state/lattice/local")


def test_the_tail_of_a_log_reads_like_prose(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text('old\n{"level": "ERROR", "message": "port 8080 is in use"}\nTraceback\n')
    assert tail(log, since=4) == "  error: port 8080 is in use\n  Traceback"


def test_tokens_hold_for_a_month_and_name_their_bearer(layout: Layout) -> None:
    secret = ensure_secret(layout)
    write_tokens(layout, secret)
    mine, agents = (
        jwt.decode(path.read_text().strip(), secret, algorithms=["HS256"])
        for path in (layout.token, layout.agent_token)
    )
    assert (mine["sub"], mine["scope"], mine["tenants"]) == (current_user(), "admin", ["default"])
    assert agents["kind"] == "agent"
    assert {claims["exp"] - claims["iat"] for claims in (mine, agents)} == {30 * 86400}


@scenario
async def test_tokens_are_renewed_before_they_expire(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "TOKEN_LOOK_EVERY_S", 0.001)
    monkeypatch.setattr(cluster_module, "RENEW_BEFORE_S", LIFETIME_S + 1)
    cluster = cluster_module.Cluster(layout, Options(nodes=0, rest_port=0, grpc_port=0))
    before = layout.token.stat().st_ino

    def is_renewed() -> bool:
        return layout.token.stat().st_ino != before

    task = asyncio.create_task(cluster._renew_tokens())
    await asyncio.to_thread(eventually, is_renewed, "a new token", every_s=0.001)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_a_process_that_is_not_restarted_leaves_the_record(layout: Layout) -> None:
    keeper = Keeper(
        Program(role="agent", name="n1", command=["sleep", "60"], log=layout.root / "log"),
        Record(layout, api_url="", grpc=""),
        restart=False,
    )

    def recorded() -> list[int]:
        cluster = read_cluster(layout.root)
        return [process.pid for process in cluster.processes] if cluster is not None else []

    async def live() -> None:
        task = asyncio.create_task(keeper.run())
        (pid,) = await asyncio.to_thread(eventually, recorded, "the process in cluster.json")
        os.kill(pid, signal.SIGKILL)
        await task

    asyncio.run(asyncio.wait_for(live(), 10))
    assert recorded() == []
    assert (keeper.deaths, keeper.last_code) == (1, -9)


def test_nodes_are_spread_over_the_groups_in_turn(layout: Layout) -> None:
    options = Options(nodes=5, node_groups=2)
    assert [options.group_of(node) for node in options.node_names()] == ["g1", "g2", "g1", "g2", "g1"]
    words = commands.agent_command(layout, options, "n2", "h:1")
    assert words[words.index("--group") + 1] == "g2"
    assert "--group" not in commands.agent_command(layout, Options(), "n2", "h:1")


@pytest.mark.parametrize("bits", [0o777, 0o770, 0o1777])
def test_a_folder_in_which_others_may_write_is_refused(tmp_path: Path, bits: int) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(bits)
    with pytest.raises(UntrustedFolder, match="other users can write"):
        Layout(folder).prepare()
    assert list(folder.iterdir()) == []


def test_a_folder_below_one_in_which_others_may_write_is_refused_unless_sticky(tmp_path: Path) -> None:
    above = tmp_path / "shared"
    above.mkdir()
    above.chmod(0o777)
    with pytest.raises(UntrustedFolder, match=str(above)):
        Layout(above / "mine").prepare()
    above.chmod(0o1777)
    Layout(above / "mine").prepare()
    assert mode(above / "mine") == 0o700


@pytest.mark.root
def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o755)
    os.chown(folder, 12345, 12345)
    with pytest.raises(UntrustedFolder, match="belongs to another user"):
        Layout(folder).prepare()


def test_further_users_keep_their_roles_when_tokens_are_renewed(layout: Layout) -> None:
    secret = ensure_secret(layout)
    write_tokens(layout, secret, read_users("ada, bob:operator"))
    (layout.users / "stranger").write_text("not a token")
    write_tokens(layout, secret)
    claims = {name: jwt.decode((layout.users / name).read_text().strip(), secret, ["HS256"]) for name in ("ada", "bob")}
    assert {name: (found["sub"], found["scope"]) for name, found in claims.items()} == {
        "ada": ("ada", ""),
        "bob": ("bob", "operator"),
    }
    assert claims["bob"]["account"] == current_user()
    assert (layout.users / "stranger").read_text() == "not a token"
    assert stat.S_IMODE((layout.users / "ada").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Ada Lovelace", "not a valid user name"),
        ("../ada", "not a valid user name"),
        ("ada:boss", "not a role"),
        (current_user(), "is you"),
        (",".join(f"u{number}" for number in range(101)), "at most 100 users"),
    ],
)
def test_users_that_cannot_be(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_users(text)
