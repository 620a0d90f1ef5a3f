"""Reads a YAML file into its schema. Every complaint names the file, the line and the column.

Errors of this boundary::

    ConfigError          unreadable file, broken YAML, unknown key, wrong type, value out of bounds
"""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeGuard, TypeVar, get_args, get_origin

import msgspec
import yaml

from lattice.config.sections.values import DurationText
from lattice.config.spellings import spellings_of

T = TypeVar("T", bound=msgspec.Struct)

_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhdw])\s*)+", re.IGNORECASE)
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])", re.IGNORECASE)
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_AT_PATH = re.compile(r"^(?P<what>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MAX_BYTES = 1 << 20


_COMPLAINT = re.compile(r"([a-z_]+(?:\.[a-z_]+)*): ")


class ConfigError(Exception):
    """A configuration that cannot be used; the text says where and why."""


def load(path: Path, schema: type[T], overrides: Sequence[str] = ()) -> T:
    """The checked settings in `path` with `overrides` (`section.key=value`) laid over them."""
    return read(path, schema, overrides)[0]


def read(
    path: Path, schema: type[T], overrides: Sequence[str] = (), note: Callable[[str], None] = lambda text: None
) -> tuple[T, Callable[[str], str]]:
    """The checked settings, and where each key stands, for complaints of checks that only the caller can make.

    `note` gets a sentence for each key that is spelled in another way.
    """
    reader = _Reader(str(path), schema, note)
    reader.read_file(path)
    for override in overrides:
        reader.override(override)
    return reader.checked(schema), lambda key: reader.place(f".{key}")


def with_place(text: str, schema: type[msgspec.Struct], place: Callable[[str], str]) -> str:
    """A complaint that begins with a key of the schema, with file and line of that key before it; any other as it is."""
    key = _COMPLAINT.match(text)
    if key is None or key[1].partition(".")[0] not in schema.__struct_fields__:
        return text
    return f"{place(key[1])}: {text}"


def parse_duration(text: str) -> float | None:
    """Seconds of `500ms`, `10s`, `5m`, `1h30m` or a plain number; None when it is none of these."""
    stripped = text.strip()
    if _DURATION.fullmatch(stripped):
        parts = _DURATION_PART.findall(stripped)
        return sum(float(value) * _UNIT_S[unit.lower()] for value, unit in parts)
    try:
        return float(stripped)
    except ValueError:
        return None


class _Reader:
    """Walks YAML and schema together and remembers where each value stood."""

    def __init__(
        self, source: str, schema: type[msgspec.Struct], note: Callable[[str], None] = lambda text: None
    ) -> None:
        self._source = source
        self._schema = schema
        self._note = note
        self._spellings = spellings_of(schema)
        self._respelled: list[tuple[str, str, yaml.Node, str]] = []  # key, how it is spelled, its value, where
        self._values: dict[str, Any] = {}
        self._places: dict[str, str] = {"": f"{source}:1:1"}

    def read_file(self, path: Path) -> None:
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise ConfigError(f"{path}: cannot read: {error.strerror or error}") from error
        if len(raw) > _MAX_BYTES:
            raise ConfigError(f"{path}: larger than {_MAX_BYTES >> 20} MiB; is this the right file?")
        root = self._compose(_text(raw, self._source))
        if root is not None:
            self._values = self._mapping(root, self._schema, "")
        for key, spelling, node, place in self._respelled:
            target, last, schema = self._target(key, place)
            if last in target:
                raise ConfigError(f'{place}: "{spelling}" is another spelling of "{key}", which is given, too')
            self._note(f'{place}: "{spelling}" is understood; the key is "{key}"')
            self._places["." + key] = place
            value = self._value(node, schema, "." + key, place)
            is_name = type(value) is int and get_args(schema)[:1] == (str,)  # the handbook numbers its servers
            target[last] = str(value) if is_name else value

    def override(self, override: str) -> None:
        dotted, separator, value = override.partition("=")
        source = f"--set {override}"
        if not separator or not dotted:
            raise ConfigError(f"{source}: write it as section.key=value")
        target, last, schema = self._target(dotted, source)
        self._places["." + dotted] = source
        nested = _Reader(source, self._schema)
        node = nested._compose(value)
        target[last] = None if node is None else self._value(node, schema, "." + dotted, source)

    def _target(self, dotted: str, source: str) -> tuple[dict[str, Any], str, object]:
        """The section that holds that key, made where it is missing; the key without its section; the type of its value."""
        keys = dotted.split(".")
        schema: object = self._schema
        target = self._values
        for depth, key in enumerate(keys):
            if not _is_struct(schema):
                raise ConfigError(f'{source}: "{".".join(keys[:depth])}" has no keys of its own')
            schema = _field_type(schema, key, ".".join(keys[:depth]), source)
            if depth < len(keys) - 1:
                target = target.setdefault(key, {})
        return target, keys[-1], schema

    def checked(self, schema: type[T]) -> T:
        try:
            return msgspec.convert(self._values, schema)
        except msgspec.ValidationError as error:
            found = _AT_PATH.match(str(error))
            what, path = (found["what"], found["path"] or "") if found else (str(error), "")
            key = path.lstrip(".")
            raise ConfigError(f"{self.place(path)}: {_plain(what, key)}{_known_values(what, schema, key)}") from None

    def _compose(self, text: str) -> yaml.Node | None:
        try:
            return yaml.compose(text, Loader=_LOADER)  # type: ignore[no-any-return]
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = f"{self._source}:{mark.line + 1}:{mark.column + 1}" if mark else self._source
            raise ConfigError(f"{place}: not valid YAML: {error.problem or error.context}") from error
        except yaml.YAMLError as error:
            raise ConfigError(f"{self._source}: not valid YAML: {error}") from error

    def _mapping(self, node: yaml.Node, schema: type[msgspec.Struct], path: str) -> dict[str, Any]:
        where = path.lstrip(".")
        if not isinstance(node, yaml.MappingNode):
            if isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null"):
                return {}
            owner = f'"{where}"' if where else "the file"
            raise ConfigError(f"{self._mark(node)}: {owner} must hold `key: value` pairs")
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            place = self._mark(key_node)
            key = str(key_node.value)
            if self._is_respelled(key, key_node, value_node, path):
                continue
            inner = _field_type(schema, key, where, place)
            if key in values:
                raise ConfigError(f'{place}: "{key}" is given twice')
            self._places[f"{path}.{key}"] = self._mark(value_node)
            values[key] = self._value(value_node, inner, f"{path}.{key}", self._mark(value_node))
        return values

    def _is_respelled(self, key: str, key_node: yaml.Node, node: yaml.Node, path: str) -> bool:
        """Notes another spelling of a key for later, or those in a section that exists in that spelling alone."""
        spelling = f"{path}.{key}".lstrip(".")
        if spelling in self._spellings.keys:
            self._respelled.append((self._spellings.keys[spelling], spelling, node, self._mark(key_node)))
            return True
        is_foreign = key not in self._schema.__struct_fields__ and self._spellings.has_section(spelling)
        if path or not is_foreign or not isinstance(node, yaml.MappingNode):
            return False
        for inner_key, inner in node.value:
            if not self._is_respelled(str(inner_key.value), inner_key, inner, f".{spelling}"):
                raise ConfigError(
                    f'{self._mark(inner_key)}: unknown key "{inner_key.value}" in "{spelling}", which Lattice has not'
                )
        return True

    def _value(self, node: yaml.Node, schema: object, path: str, place: str) -> object:
        if _is_struct(schema):
            return self._mapping(node, schema, path)
        value = _construct(node, place)
        if names := self._spellings.in_lists.get(path.lstrip(".")):
            value = self._entries(value, names, path.lstrip("."), place)
        if isinstance(value, str) and _is_duration(schema):
            seconds = parse_duration(value)
            if seconds is None:
                key = path.lstrip(".")
                hint = "write 500ms, 10s, 5m, 1h30m or plain seconds"
                raise ConfigError(f'{place}: cannot read "{value[:60]}" as a duration for "{key}"; {hint}')
            return seconds
        return value

    def _entries(self, value: object, names: Mapping[str, str], key: str, place: str) -> object:
        """The entries of a list with their keys as Lattice spells them."""
        if not isinstance(value, list):
            return value
        for entry in value:
            for spelling in [each for each in entry if each in names] if isinstance(entry, dict) else ():
                if names[spelling] in entry:
                    raise ConfigError(f'{place}: "{key}" has both "{spelling}" and "{names[spelling]}"')
                self._note(f'{place}: "{spelling}" in "{key}" is understood; the key is "{names[spelling]}"')
                given = entry.pop(spelling)
                entry[names[spelling]] = str(given) if type(given) is int else given
        return value

    def _mark(self, node: yaml.Node) -> str:
        mark = node.start_mark
        return f"{self._source}:{mark.line + 1}:{mark.column + 1}"

    def place(self, path: str) -> str:
        while path and path not in self._places:
            path = path.rpartition(".")[0]
        return self._places[path]


def _text(raw: bytes, source: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - (raw.rfind(b"\n", 0, error.start) + 1) + 1
        raise ConfigError(f"{source}:{line}:{column}: not UTF-8 text") from error


def _construct(node: yaml.Node, place: str) -> object:
    try:
        return yaml.constructor.SafeConstructor().construct_object(node, deep=True)
    except (yaml.YAMLError, ValueError) as error:
        problem = getattr(error, "problem", None) or str(error)
        raise ConfigError(f"{place}: not a plain value: {problem}") from error


def _is_struct(schema: object) -> TypeGuard[type[msgspec.Struct]]:
    return isinstance(schema, type) and issubclass(schema, msgspec.Struct)


def _is_duration(schema: object) -> bool:
    return any(isinstance(extra, DurationText) for extra in getattr(schema, "__metadata__", ()))


def _field_type(schema: type[msgspec.Struct], key: str, where: str, place: str) -> object:
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(schema)}
    if key in fields:
        return fields[key]
    owner = f' in "{where}"' if where else ""
    raise ConfigError(f'{place}: unknown key "{key}"{owner}{_suggestion(key, fields)}')


def _suggestion(key: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = difflib.get_close_matches(key, names, n=1, cutoff=0.6)
    close = close or [name for name in names if len(key) > 2 and name.startswith(key)]
    return f'; did you mean "{close[0]}"?' if close else f"; known keys: {', '.join(names)}"


def _plain(what: str, key: str) -> str:
    """msgspec's sentence with the key in it instead of JSON words."""
    missing = re.match(r"Object missing required field `(\w+)`", what)
    if missing:
        full = f"{key}.{missing[1]}" if key else missing[1]
        return f'"{full}" is missing'
    return f'"{key}": {what[:1].lower()}{what[1:]}' if key else what


def _known_values(what: str, schema: object, key: str) -> str:
    """The values that a key takes, where it got another one."""
    if not what.startswith("Invalid enum value"):
        return ""
    for name in key.removesuffix("[...]").split("."):
        fields = msgspec.structs.fields(schema) if _is_struct(schema) else ()
        schema = next((field.type for field in fields if field.encode_name == name), None)
    if get_origin(schema) is list:
        (schema,) = get_args(schema)
    values = get_args(schema) if get_origin(schema) is Literal else ()
    return f"; known values: {', '.join(value or '(empty)' for value in values)}" if values else ""
