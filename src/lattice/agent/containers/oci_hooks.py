"""OCI hooks of the site: programs that the runtime calls while it makes a container, such as those that bring in GPU drivers.

One JSON file each, in the form that podman and CRI-O read (version 1.0.0): `hook` with `path`, `args`, `env`, `timeout`, and `stages`.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

VERSION = "1.0.0"
STAGES = ("prestart", "createRuntime", "createContainer")


class HooksUnusable(Exception):
    """The text names the file and what is wrong with it."""


class _Hook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    path: str
    args: list[str] = []
    env: list[str] = []
    timeout: int | None = None


class _When(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    always: bool = False


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: str
    hook: _Hook
    when: _When = _When()
    stages: list[str] = []


class Hooks(msgspec.Struct, frozen=True):
    """Stage to hooks, as config.json has them."""

    config: Mapping[str, list[dict[str, object]]] = {}


def read_hooks(directory: Path | None) -> Hooks:
    """In the order of the files' names. Raises HooksUnusable."""
    if directory is None:
        return Hooks()
    try:
        files = sorted(directory.glob("*.json"))
        read = [(path, path.read_bytes()) for path in files]
    except OSError as error:
        raise HooksUnusable(f"cannot read {directory}: {error.strerror}") from error
    if not directory.is_dir():
        raise HooksUnusable(f"{directory} is not a directory")
    config: dict[str, list[dict[str, object]]] = {}
    for path, data in read:
        try:
            told = msgspec.json.decode(data, type=_File)
        except msgspec.DecodeError as error:
            raise HooksUnusable(f"{path}: {error}") from error
        _check(path, told)
        for stage in told.stages:
            config.setdefault(stage, []).append(msgspec.to_builtins(told.hook))
    return Hooks(config)


def _check(path: Path, told: _File) -> None:
    if told.version != VERSION:
        raise HooksUnusable(f'{path}: version "{told.version[:20]}" is not known, only {VERSION}')
    if not told.when.always:
        raise HooksUnusable(f"{path}: only hooks with when.always are supported")
    if not told.stages or not set(told.stages) <= set(STAGES):
        raise HooksUnusable(f"{path}: stages must be of {', '.join(STAGES)}")
    if not told.hook.path.startswith("/"):
        raise HooksUnusable(f"{path}: hook.path is not an absolute path")
