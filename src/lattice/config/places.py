"""Where servers and agents keep their files by default: in the system's directories for root, in the user's own for others."""

import os
from collections.abc import Mapping
from pathlib import Path

IN_MEMORY = "tmpfs"  # instead of a directory for scratch


def config_dir(environment: Mapping[str, str], uid: int) -> Path:
    """Of configuration files: `/etc/lattice`, or below XDG_CONFIG_HOME."""
    return Path("/etc/lattice") if uid == 0 else _own(environment, "XDG_CONFIG_HOME", ".config")


def state_dir(environment: Mapping[str, str], uid: int) -> Path:
    """Of data: `/var/lib/lattice`, or below XDG_STATE_HOME."""
    return Path("/var/lib/lattice") if uid == 0 else _own(environment, "XDG_STATE_HOME", ".local/state")


def _own(environment: Mapping[str, str], variable: str, usual: str) -> Path:
    given = environment.get(variable, "")
    if os.path.isabs(given):  # a relative one counts as unset, as the XDG specification says
        return Path(given) / "lattice"
    return Path(environment.get("HOME") or os.path.expanduser("~")) / usual / "lattice"
