"""A whole cluster of real processes in a folder of its own, started and stopped as a user would do it."""

import contextlib
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from lattice.testing.waiting import NotInTime, eventually
from lattice_sdk import TERMINAL_STATES, Client
from lattice_sdk.site.local_cluster import AGENT_TOKEN_FILE, TOKEN_FILE, ClusterFile, ClusterProcess, read_cluster

Json = Any

# Short enough for a test, long enough for a busy machine.
QUICK_TIMINGS: Mapping[str, str] = {
    "node_agent.heartbeat_interval_s": "0.3",
    "node_agent.heartbeat_timeout_s": "2",
    "node_agent.grace_period_s": "2",
    "node_agent.stop_grace_s": "2",
    "node_agent.order_retry_s": "0.5",
    "node_agent.reconcile_every_s": "2",
    "scheduling.cycle_interval_s": "1",
}


# How long a request is repeated that no server can answer.
PATIENCE_S = 60.0


class CommandFailed(AssertionError):
    """A command line that should have worked did not; the text holds all it said."""

    def __init__(self, outcome: "subprocess.CompletedProcess[str]") -> None:
        super().__init__(f"{outcome.args} ended with {outcome.returncode}\n{outcome.stdout}\n{outcome.stderr}")
        self.outcome = outcome


class LocalCluster:
    """`with LocalCluster(nodes=2) as cluster:` - gone without a trace afterwards, whatever happened inside."""

    def __init__(
        self,
        *,
        nodes: int = 2,
        servers: int = 1,
        settings: Mapping[str, str] | None = None,
        restart: bool = True,
        arguments: Sequence[str] = (),
        directory: Path | None = None,
        program: Path | None = None,
        user: int | None = None,
    ) -> None:
        self.node_count = nodes
        self._servers = servers
        self._settings = {**QUICK_TIMINGS, **(settings or {})}
        self._restart = restart
        self._arguments = list(arguments)
        self._own_directory = directory is None
        # Unix sockets lie below, and their names may not be long.
        self.directory = directory or Path(tempfile.mkdtemp(prefix="lattice-"))
        self._program = program or Path(sys.executable).with_name("lattice")
        self._user = user
        if user is not None:
            os.chown(self.directory, user, user)

    def __enter__(self) -> "LocalCluster":
        try:
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def start(self) -> "subprocess.CompletedProcess[str]":
        settings = [word for key, value in self._settings.items() for word in ("--set", f"{key}={value}")]
        words = ["--nodes", str(self.node_count), "--rest-port", "0", "--grpc-port", "0", "--detach", *settings]
        if self._servers > 1:
            words += ["--servers", str(self._servers)]
        if not self._restart:
            words.append("--no-restart")
        return self.cli("up", "--dir", str(self.directory), *words, *self._arguments, timeout_s=110)

    def stop(self) -> "subprocess.CompletedProcess[str]":
        return self.cli("down", "--dir", str(self.directory), timeout_s=110)

    def remove(self) -> None:
        self.stop()
        if self._own_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    # What a user types

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LATTICE_")}
        return {**kept, "LATTICE_DIR": str(self.directory), "LATTICE_WARM": "off"}

    def cli(
        self, *words: str, check: bool = True, stdin: str = "", cwd: Path | None = None, timeout_s: float = 90
    ) -> "subprocess.CompletedProcess[str]":
        """Run `lattice WORDS` against this cluster; CommandFailed unless it succeeds or check is off."""
        outcome = subprocess.run(
            [str(self._program), *words],
            input=stdin,
            capture_output=True,
            text=True,
            env=self.environment(),
            cwd=cwd or self.directory,
            timeout=timeout_s,
            check=False,
            user=self._user,
            group=self._user,
            extra_groups=None if self._user is None else [],
        )
        if check and outcome.returncode != 0:
            raise CommandFailed(outcome)
        return outcome

    # What a program asks

    @property
    def file(self) -> ClusterFile:
        found = read_cluster(self.directory)
        if found is None:
            raise AssertionError(f"no cluster.json in {self.directory}")
        return found

    @property
    def api_url(self) -> str:
        return self.file.api_url

    @property
    def urls(self) -> dict[str, str]:
        """Where each server answers, by its name."""
        names = [f"s{number}" for number in range(1, self._servers + 1)] if self._servers > 1 else ["server"]
        return dict(zip(names, self.api_url.split(","), strict=True))

    @property
    def token(self) -> str:
        return (self.directory / TOKEN_FILE).read_text().strip()

    @property
    def agent_token(self) -> str:
        return (self.directory / AGENT_TOKEN_FILE).read_text().strip()

    def client(self, *, retry_for_s: float = 30.0) -> Client:
        return Client(self.api_url, token=self.token, retry_for=retry_for_s)

    def request(
        self,
        method: str,
        path: str,
        body: Json = None,
        *,
        token: str | None = None,
        request_id: str = "",
        timeout_s: float = 30.0,
        server: str = "",
    ) -> tuple[int, Json]:
        """One call of the REST interface, without help of any client library; status and decoded answer.

        Asked is the server named, or the first one.
        """
        urls = self.urls
        address = urlsplit(urls[server] if server else next(iter(urls.values())))
        connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=timeout_s)
        headers = {"Authorization": f"Bearer {self.token if token is None else token}"}
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if request_id:
            headers["X-Request-Id"] = request_id
        if data is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, f"/api/v1{path}", body=data, headers=headers)
            with connection.getresponse() as answer:  # closed also when the server dies before its end
                content = answer.read()
                is_json = "json" in (answer.getheader("Content-Type") or "")
                return answer.status, json.loads(content) if is_json else content.decode(errors="replace")
        finally:
            connection.close()

    def get(self, path: str) -> Json:
        return self._expect("GET", path, None)

    def post(self, path: str, body: Json = None) -> Json:
        return self._expect("POST", path, body)

    def put(self, path: str, body: Json) -> Json:
        return self._expect("PUT", path, body)

    def delete(self, path: str) -> Json:
        return self._expect("DELETE", path, None)

    def _expect(self, method: str, path: str, body: Json) -> Json:
        """The answer; asked again, under the same request id, while leadership moves or a server restarts, as every client does."""
        request_id = "" if method == "GET" else uuid.uuid4().hex
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                status, answer = self.request(method, path, body, request_id=request_id)
            except (OSError, http.client.HTTPException):
                if time.monotonic() > until:
                    raise
            else:
                if status < 300:
                    return answer
                if status != 503 or time.monotonic() > until:
                    raise AssertionError(f"{method} {path}: {status} {answer}")
            time.sleep(0.05)

    def submit(self, entrypoint: str | Sequence[str], **fields: Json) -> Json:
        """Submit; the allocation as first seen. Fields are those of the API."""
        asked = entrypoint if isinstance(entrypoint, str) else list(entrypoint)
        return self.post("/allocations", {"entrypoint": asked, **fields})

    def allocation(self, allocation_id: str) -> Json:
        return self.get(f"/allocations/{allocation_id}")

    def wait_state(self, allocation_id: str, *states: str, within_s: float = 60.0) -> Json:
        def look() -> Json:
            seen = self.allocation(allocation_id)
            return seen if seen["state"] in states else None

        try:
            return eventually(look, f"{allocation_id} in {'/'.join(states)}", within_s=within_s)
        except NotInTime as error:
            raise NotInTime(f"{error}; it is {self.allocation(allocation_id)}") from None

    def wait_end(self, allocation_id: str, *, within_s: float = 60.0) -> Json:
        return self.wait_state(allocation_id, *TERMINAL_STATES, within_s=within_s)

    def run(self, entrypoint: str | Sequence[str], *, within_s: float = 60.0, **fields: Json) -> Json:
        """Submit and wait for the end."""
        return self.wait_end(self.submit(entrypoint, **fields)["id"], within_s=within_s)

    def logs(self, allocation_id: str, stream: str = "stdout") -> str:
        return str(self.get(f"/allocations/{allocation_id}/logs?stream={stream}"))

    def nodes(self) -> dict[str, Json]:
        return {node["id"]: node for node in self.get("/nodes")["items"]}

    def wait_node(self, node: str, *states: str, within_s: float = 60.0) -> Json:
        def look() -> Json:
            seen = self.nodes()[node]
            return seen if seen["state"] in states else None

        return eventually(look, f"node {node} in {'/'.join(states)}", within_s=within_s)

    # What goes wrong

    def process(self, role: str, name: str | None = None) -> ClusterProcess | None:
        found = [process for process in self.file.of_role(role) if name in {None, process.name}]
        return found[0] if found else None

    def kill(self, role: str, name: str | None = None, number: int = signal.SIGKILL) -> ClusterProcess:
        """Signal one process of the cluster; it is the one that cluster.json names, or nothing happens."""
        process = eventually(lambda: self.process(role, name), f"{role} {name or ''} in cluster.json")
        fd = os.pidfd_open(process.pid)
        try:
            if start_of(process.pid) != process.started:
                raise AssertionError(f"{role} {name} (pid {process.pid}) is gone already")
            signal.pidfd_send_signal(fd, number)
        finally:
            os.close(fd)
        return process

    def wait_replaced(self, old: ClusterProcess, *, within_s: float = 60.0) -> ClusterProcess:
        """The process that took the place of the old one."""

        def look() -> ClusterProcess | None:
            new = self.process(old.role, old.name)
            return new if new is not None and (new.pid, new.started) != (old.pid, old.started) else None

        return eventually(look, f"a new {old.role} {old.name}", within_s=within_s)

    def wait_serving(self, *, within_s: float = 60.0) -> None:
        def look() -> bool:
            try:
                return self.request("GET", "/nodes", timeout_s=2)[0] == 200
            except (OSError, http.client.HTTPException):
                return False

        eventually(look, "the API answers", within_s=within_s)

    def leader(self, *, within_s: float = 60.0) -> str:
        """The name of the leader, as soon as there is one and any server reports it."""

        def look() -> str:
            for server in self.urls:
                with contextlib.suppress(OSError, http.client.HTTPException):
                    status, answer = self.request("GET", "/raft/status", server=server, timeout_s=5)
                    if status == 200 and any(m["name"] == answer["leader"] and m["healthy"] for m in answer["members"]):
                        return str(answer["leader"])
            return ""

        return eventually(look, "a leader", within_s=within_s, every_s=0.2)

    @contextmanager
    def stopped(self, role: str, name: str | None = None) -> Iterator[ClusterProcess]:
        """The process is stopped inside, and continues afterwards."""
        process = self.kill(role, name, signal.SIGSTOP)
        try:
            yield process
        finally:
            if start_of(process.pid) == process.started:
                os.kill(process.pid, signal.SIGCONT)


def start_of(pid: int) -> int | None:
    """Start time of a living process in clock ticks since boot."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[0] in {"Z", "X"} else int(fields[19])


def is_running(pid: int) -> bool:
    return start_of(pid) is not None
