"""How server and agents are started: arguments, environment, configuration. Secrets are passed by path only."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from lattice.config.places import IN_MEMORY
from lattice.daemons.local.credentials import current_user
from lattice.daemons.local.layout import Layout, write_private
from lattice.daemons.local.options import HOST, Options

# Everything else is dropped: tokens in the user's shell, proxies for the loopback address.
INHERITED = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM"}
INHERITED_PREFIXES = ("LC_", "PYTHON", "COVERAGE_")


def program(name: str) -> str:
    """The executable beside the interpreter that runs us, whatever the caller's PATH is."""
    return str(Path(sys.executable).with_name(name))


def environment() -> dict[str, str]:
    return {
        name: value for name, value in os.environ.items() if name in INHERITED or name.startswith(INHERITED_PREFIXES)
    }


@dataclass(frozen=True)
class ServerPlace:
    """A server's name and ports; those of its etcd member are 0 for a single server."""

    name: str
    rest: int
    grpc: int
    proxy: int = 0
    client: int = 0
    peer: int = 0

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.rest}"

    @property
    def agents(self) -> str:
        return f"{HOST}:{self.grpc}"

    def as_peer(self) -> dict[str, str]:
        return {
            "name": self.name,
            "rest": self.url,
            "grpc": self.agents,
            "client": f"{HOST}:{self.client}",
            "peer": f"{HOST}:{self.peer}",
        }


def write_server_config(
    layout: Layout, place: ServerPlace, places: Sequence[ServerPlace], token: str, settings: Sequence[str] = ()
) -> None:
    """`settings` override single values later; images are in one place only."""
    has_registry = any(text.startswith("images.url=") for text in settings)
    config = {
        "name": place.name,
        "mode": "dev",
        "data_dir": str(layout.data_of(place.name)),
        "log": {"kind": "sqlite"},
        "api": {
            "rest_listen": f"{HOST}:{place.rest}",
            "grpc_listen": f"{HOST}:{place.grpc}",
            "proxy_listen": f"{HOST}:{place.proxy}",
            "hmac_secret": f"file://{layout.secret}",
        },
        "object_store": {"directory": str(layout.objects)},
        "images": {} if has_registry else {"directory": str(layout.images)},
        "checkpoint": {"root": str(layout.checkpoints)},
        "data": _data(layout),
        "upgrade": {"auto_finalize": True},  # all servers are of this release
    }
    if len(places) > 1:
        config["quorum"] = {
            "kind": "etcd",
            "token": token,
            "peers": [peer.as_peer() for peer in places],
            "internal_listen": f"{HOST}:0",
            "relay_listen": f"{HOST}:0",
        }
    heading = "# Written by `lattice up` at each start; override single values with --set KEY=VALUE.\n"
    layout.checkpoints.mkdir(mode=0o711, exist_ok=True)
    write_node_data(layout)
    path = layout.config_of(place.name)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(path, (heading + yaml.safe_dump(config, sort_keys=False)).encode())


def _data(layout: Layout) -> dict[str, object]:
    """All below the directory of the cluster. What is in the cold tier is there: nothing has to bring it back."""
    warm, cold = {"url": f"file://{layout.tiers}/warm"}, {"url": f"file://{layout.tiers}/cold", "recall": ["true"]}
    return {"tiers": {"hot": {"directory": str(layout.tiers / "hot")}, "warm": [warm], "cold": [cold]}}


def write_node_data(layout: Layout) -> None:
    """What agents read of it: the exports and buckets that nodes mount themselves."""
    config = {"mode": "dev", "data": _data(layout)}
    write_private(layout.node_data, yaml.safe_dump(config, sort_keys=False).encode())


def server_command(layout: Layout, options: Options, name: str) -> list[str]:
    settings = [word for setting in options.settings for word in ("--set", setting)]
    begin = [] if options.servers == 1 else ["--bootstrap-if-new"]
    return [program("lattice-server"), "--config", str(layout.config_of(name)), *begin, *settings]


def hot_tier(layout: Layout, options: Options) -> str:
    """Where copies of data are: under the directory of the cluster unless a setting says otherwise."""
    given = [text.partition("=")[2] for text in options.settings if text.startswith("data.tiers.hot.directory=")]
    return given[-1] if given else str(layout.tiers / "hot")


# The first work is often submitted while the mover still starts; servers and nodes have the processors first.
GIVES_WAY = ("nice", "-n", "10")


def mover_command(layout: Layout, options: Options, servers: str) -> list[str]:
    settings = [word for setting in options.settings for word in ("--set", setting)]
    config = str(layout.config_of(options.server_names()[0]))
    token = str(layout.mover_token)
    mover = [program("lattice-mover"), "--config", config, "--servers", servers, "--token-file", token, *settings]
    return [*GIVES_WAY, *mover]


def agent_command(layout: Layout, options: Options, node: str, grpc: str) -> list[str]:
    arguments = {
        "--node-id": node,
        "--metrics-listen": "off",  # several agents share this machine
        "--telemetry-without": "bpf",  # each would count every switch of the machine
        "--state-dir": str(layout.state_of(node)),
        "--servers": grpc,
        "--token-file": str(layout.agent_token),
        "--cpus": str(options.node_cpus),
        "--memory-mb": str(options.node_memory_mb),
        "--allow-user": current_user(),
        "--object-store": str(layout.objects),
        "--cache-dir": str(layout.cache),
    }
    if os.geteuid() == 0:
        if hot := hot_tier(layout, options):
            arguments["--data-hot"] = hot
        arguments["--data-config"] = str(layout.node_data)
    if group := options.group_of(node):
        arguments["--group"] = group
    hooks = {"--prologue": options.prologue, "--epilogue": options.epilogue}
    hooks |= {"--checks": options.checks, "--check-dir": options.check_dir}
    arguments |= {flag: os.path.abspath(path) for flag, path in hooks.items() if path}
    if options.scratch_dir == IN_MEMORY:
        arguments["--scratch-dir"] = IN_MEMORY
    elif options.scratch_dir:
        arguments["--scratch-dir"] = os.path.join(os.path.abspath(options.scratch_dir), node)
    # All nodes share one machine: each has the GPUs that were dealt to it, unless a file declares other hardware.
    hardware = os.path.join(os.path.abspath(options.hardware_dir), f"{node}.json") if options.hardware_dir else ""
    if hardware and os.path.exists(hardware):
        arguments["--hardware"] = hardware
    elif (topology := layout.topology_of(node)).exists():
        arguments["--topology-file"] = str(topology)
    else:
        arguments["--gpus"] = "0"
    # As the servers and the mover have them.
    data = [word for text in options.settings if text.startswith("data.") for word in ("--data-set", text)]
    return [program("lattice-agent"), *(word for pair in arguments.items() for word in pair), *data]
