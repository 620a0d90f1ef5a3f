"""A configuration that may be shown: every secret that stands in it is struck out, references to secrets are left."""

import re

import msgspec

HIDDEN = "(not shown)"
_REFERENCE = re.compile(r"^(file|env|vault)://")
_SECRET_NAME = re.compile(r"(^|_)(secret|password|token)$")
_CREDENTIALS = re.compile(r"(\w+://)[^/@\s]+@")


def is_secret_key(key: str) -> bool:
    """Whether a key of the configuration, dotted or not, holds a secret."""
    return _SECRET_NAME.search(key.rpartition(".")[2]) is not None


def is_reference(value: str) -> bool:
    return _REFERENCE.match(value) is not None


def redacted(config: msgspec.Struct) -> dict[str, object]:
    """The settings as plain values, fit to be printed."""
    return {name: _shown(name, value) for name, value in msgspec.to_builtins(config).items()}


def _shown(name: str, value: object) -> object:
    match value:
        case dict():
            return {key: _shown(key, inner) for key, inner in value.items()}
        case list():
            return [_shown(name, inner) for inner in value]
        case str() if value and is_secret_key(name) and not is_reference(value):
            return HIDDEN
        case str():
            return _CREDENTIALS.sub(rf"\1{HIDDEN}@", value)
        case _:
            return value
