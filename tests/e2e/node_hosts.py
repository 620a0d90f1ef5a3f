"""Nodes on hosts of their own, each behind a link that can be cut, and three servers that they all reach."""

import contextlib
import http.client
import re
import signal
import time
from collections.abc import Iterator, Mapping
from typing import Any

from lattice.testing import eventually
from tests.e2e.server_hosts import HostCluster
from tests.integration.quorum.etcd_networks import Network


class NodeHosts(HostCluster):
    """`with NodeHosts() as cluster:` - servers s1, s2, s3 and nodes h1, h2, h3, six hosts."""

    def __init__(self, *, settings: Mapping[str, str]) -> None:
        super().__init__(free_nodes=0, settings=settings)
        self.hosts = ["h1", "h2", "h3"]
        self.network = Network([*self.names, *self.hosts])

    def _places(self) -> dict[str, str]:
        return dict(zip(self.hosts, self.hosts, strict=True))

    def _config(self, name: str, token: str) -> dict[str, object]:
        program = ["/bin/sh", "-c", f"cat >> {self.directory}/rebooted"]
        return {**super()._config(name, token), "node": {"reboot_program": program}}

    def environment(self) -> dict[str, str]:
        """Commands do not find servers on other hosts by themselves."""
        return {**super().environment(), "LATTICE_API_URL": self.api_url, "LATTICE_TOKEN": self.token}

    @property
    def rebooted(self) -> list[str]:
        """The nodes that the site's program was told to reboot."""
        path = self.directory / "rebooted"
        text = path.read_text() if path.exists() else ""
        return re.findall(r'"node":"(\w+)"', text)

    @contextlib.contextmanager
    def unplugged(self, node: str) -> Iterator[None]:
        """The node's host has no link inside."""
        self.network.unplug(node)
        try:
            yield
        finally:
            self.network.plug_in(node)

    def restart_agent(self, node: str) -> None:
        """Kills the agent, starts another, and returns when the servers hear that one."""
        process = self._processes[node]
        process.send_signal(signal.SIGKILL)
        process.wait()
        killed_at = time.monotonic()
        self._start(node, self._agent(node), node)

        def is_heard() -> bool:
            ago = self.nodes()[node]["last_heartbeat_s"]
            return ago is not None and time.monotonic() - ago > killed_at + 0.5

        eventually(is_heard, f"the new agent of {node} is heard", within_s=60)

    def get(self, path: str) -> Any:  # noqa: ANN401 - JSON
        """Asked again while no server leads."""

        def look() -> tuple[Any] | None:
            status, answer = self.request("GET", path)
            if status >= 300 and status != 503:
                raise AssertionError(f"GET {path}: {status} {answer}")
            return (answer,) if status == 200 else None

        return eventually(look, f"an answer to GET {path}", within_s=60)[0]

    def wait_back(self, server: str) -> None:
        """Returns when a server that was killed answers for itself again; what others say of it may be old."""

        def answers() -> bool:
            with contextlib.suppress(OSError, http.client.HTTPException):
                return self.request("GET", "/nodes", server=server, timeout_s=10)[0] == 200
            return False

        eventually(answers, f"{server} answers again", within_s=60)

    def history(self, node: str) -> list[dict[str, object]]:
        """What happened to the node, oldest first."""
        return list(self.get(f"/nodes/{node}/events")["items"])
