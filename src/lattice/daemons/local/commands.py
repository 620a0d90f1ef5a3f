"""How server and agents are started: arguments, environment, configuration. Secrets are named by path only."""

import os
import sys
from pathlib import Path

import yaml

from lattice.daemons.local.credentials import current_user
from lattice.daemons.local.layout import Layout, write_private
from lattice.daemons.local.options import HOST, Options

# Everything else stays behind: tokens in somebody's shell, proxies for the loopback address.
INHERITED = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM"}
INHERITED_PREFIXES = ("LC_", "PYTHON", "COVERAGE_")


def program(name: str) -> str:
    """The executable beside the interpreter that runs us, wherever the caller's PATH leads."""
    return str(Path(sys.executable).with_name(name))


def environment() -> dict[str, str]:
    return {
        name: value for name, value in os.environ.items() if name in INHERITED or name.startswith(INHERITED_PREFIXES)
    }


def write_server_config(layout: Layout, rest_port: int, grpc_port: int) -> None:
    config = {
        "name": "server",
        "mode": "dev",
        "data_dir": str(layout.data),
        "log": {"kind": "sqlite"},
        "api": {
            "rest_listen": f"{HOST}:{rest_port}",
            "grpc_listen": f"{HOST}:{grpc_port}",
            "hmac_secret": f"file://{layout.secret}",
        },
        "object_store": {"directory": str(layout.objects)},
    }
    heading = "# Written by `lattice up` at each start; change single values with --set KEY=VALUE.\n"
    write_private(layout.server_config, (heading + yaml.safe_dump(config, sort_keys=False)).encode())


def server_command(layout: Layout, options: Options) -> list[str]:
    settings = [word for setting in options.settings for word in ("--set", setting)]
    return [program("lattice-server"), "--config", str(layout.server_config), *settings]


def agent_command(layout: Layout, options: Options, node: str, grpc: str) -> list[str]:
    arguments = {
        "--node-id": node,
        "--state-dir": str(layout.state_of(node)),
        "--servers": grpc,
        "--token-file": str(layout.agent_token),
        "--cpus": str(options.node_cpus),
        "--memory-mb": str(options.node_memory_mb),
        "--allow-user": current_user(),
        "--object-store": str(layout.objects),
    }
    if group := options.group_of(node):
        arguments["--group"] = group
    return [program("lattice-agent"), *(word for pair in arguments.items() for word in pair)]
