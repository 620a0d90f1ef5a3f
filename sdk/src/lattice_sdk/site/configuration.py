"""The configuration files of a user and of a site: lines of the form `endpoint: https://...`.

The user's file has precedence over the site's. A file of plain lines is read without a YAML parser.
"""

import os
from collections.abc import Callable, Mapping

from lattice_sdk.errors import NotConfigured

SITE_FILE = "/etc/lattice/config.yaml"
MAX_SIZE = 1 << 20
# Keys of the file; the second spelling of a pair means the same.
ALIASES = {
    "api_url": "endpoint",
    "default_tenant": "tenant",
    "default_vcluster": "vcluster",
    "default_project": "project",
}
KEYS = frozenset(
    {
        *("endpoint", "tenant", "vcluster", "project", "output_format", "color", "default_uenv", "export"),
        *("token_file", "ca_file", "insecure_http"),
    }
)
_SPECIAL = "\"'[{&*|>!%@`#?-"
_NO_TEXT = frozenset({"null", "~", "true", "false", "yes", "no", "on", "off"})

Note = Callable[[str], None]


def user_file(environment: Mapping[str, str]) -> str:
    """Where the user's file is: LATTICE_CONFIG, or in the directory for configuration."""
    if named := environment.get("LATTICE_CONFIG"):
        return named
    home = environment.get("HOME") or os.path.expanduser("~")
    folder = environment.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    return os.path.join(folder, "lattice", "config.yaml")


def read_files(path: str, note: Note, *, is_demanded: bool) -> dict[str, str]:
    """What the site's file says, and over it what the user's at `path` says. Raises NotConfigured for a damaged file."""
    return {**read_file(SITE_FILE, note), **read_file(path, note, is_demanded=is_demanded)}


def read_file(path: str, note: Note, *, is_demanded: bool = False) -> dict[str, str]:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_SIZE)
    except (FileNotFoundError, NotADirectoryError):
        if is_demanded:
            raise NotConfigured(f"there is no configuration file {path}") from None
        return {}
    except OSError as error:
        raise NotConfigured(f"cannot read the configuration file {path}: {error.strerror}") from None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise NotConfigured(f"{path}, line {line}: the file is not UTF-8") from None
    plain = _plain(text)
    tree = _parsed(path, text) if plain is None else plain
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise NotConfigured(f"{path}, line 1, column 1: expected lines of the form `endpoint: ...`")
    return {name: value for key, found in tree.items() for name, value in _entry(path, key, found, note)}


def _plain(text: str) -> dict[str, str] | None:
    """The lines of a simple file; None for one that needs a parser."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        key, colon, value = line.partition(": ")
        value = value.strip()
        if not colon or key in found or not key.isidentifier() or not _is_text(key, value):
            return None
        found[key] = value
    return found


def _is_text(key: str, value: str) -> bool:
    """Whether YAML reads the value as the text that it is."""
    if not value or value[0] in _SPECIAL or value.lower() in _NO_TEXT:
        return False
    if value[0].isdigit() and ALIASES.get(key, key) != "endpoint":
        return False
    return not (" #" in value or ": " in value or value.endswith(":"))


def _parsed(path: str, text: str) -> object:
    try:
        import yaml
    except ImportError:
        raise NotConfigured(
            f"{path} has more than plain lines, and PyYAML is not installed",
            hint="install PyYAML, or set LATTICE_API_URL",
        ) from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise NotConfigured(f"{path}{_where(error)}") from None


def _where(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "not valid YAML"
    place = f", line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
    return f"{place}: {problem}"


def _entry(path: str, key: object, value: object, note: Note) -> list[tuple[str, str]]:
    name = ALIASES.get(str(key), str(key))
    if name not in KEYS:
        note(f'{path}: "{key}" is not a known key')
        return []
    if name == "endpoint" and isinstance(value, list):
        value = ",".join(map(str, value))
    if value is None:
        return []
    if isinstance(value, dict | list):
        raise NotConfigured(f'{path}: "{key}" must be a single value')
    return [(name, str(value).lower() if isinstance(value, bool) else str(value))]
