"""A configuration file that names every key, and how the release read it."""

import json
from pathlib import Path

import msgspec
import yaml

from lattice.config.load import load
from lattice.config.schema import ServerConfig

FILE, READ = "server.yaml", "server.json"
CHANGED = """\
name: s1
mode: dev
data_dir: /var/lib/lattice
api:
  hmac_secret: file:///etc/lattice/secret
node_agent:
  grace_period_s: 1m30s
  heartbeat_timeout_s: 20
archive: {after_s: 500ms}
"""


def read(path: Path) -> object:
    return msgspec.to_builtins(load(path, ServerConfig))


def record_configuration(target: Path) -> None:
    path = target / FILE
    path.write_text(CHANGED)
    path.write_text(yaml.safe_dump(read(path), sort_keys=False))
    (target / READ).write_text(json.dumps(read(path), indent=1) + "\n")
