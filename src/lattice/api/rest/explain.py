"""Turns a decoder's complaint into a sentence that names the field, what was expected there and what was meant."""

import codecs
import difflib
import re
import types
from collections.abc import Iterator
from enum import Enum
from typing import Literal, get_args, get_origin

import msgspec

from lattice.api.errors import ApiError

_AT = re.compile(r"^(?P<text>.*?)(?: - at `(?P<path>[^`]*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_EXPECTED = re.compile(r"Expected `([^`]*)`(?:, got `([^`]*)`)?")
_LENGTH = re.compile(r"Expected `(str|bytes|array|object)` of length <= (\d+)")
_ENUM = re.compile(r"Invalid enum value (.*)", re.DOTALL)
_BYTE = re.compile(r"JSON is malformed: (.*) \(byte (\d+)\)", re.DOTALL)
_HIGH, _LOW = rb"\\u[dD][89abAB][0-9a-fA-F]{2}", rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF_PAIR = re.compile(rb"%s(?!%s)|(?<!%s)%s" % (_HIGH, _LOW, _HIGH, _LOW))
_ESCAPES = {b"\n": ("line break", r"\n"), b"\r": ("carriage return", r"\r"), b"\t": ("tabulator", r"\t")}
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_MAX_SHOWN = 60
# What is documented for submissions and is to come: no typing errors, and never ignored.
_NOT_YET = frozenset({"image", "intent", "data", "connectivity", "telemetry", "scale_policy"})


def explain_json(error: Exception, body: bytes, request: type) -> ApiError:
    """What is wrong with a body."""
    if isinstance(error, msgspec.ValidationError):
        return explain_field(error, request)
    if isinstance(error, RecursionError):
        return ApiError("invalid", "the JSON is nested too deeply")
    if not body.strip():
        return ApiError("invalid", "the body is empty", hint="send a JSON object")
    # What is not UTF-8 may look like any other fault to the decoder.
    return _not_utf8(body) or _malformed(str(error), body)


def _malformed(text: str, body: bytes) -> ApiError:
    match = _BYTE.fullmatch(text)
    what, place = (match[1], int(match[2])) if match else ("it ends too early", len(body))
    hint = "send one JSON object, names and texts in double quotes"
    if match is None and (half := _HALF_PAIR.search(body)):
        what, place, hint = "half of a surrogate pair", half.start(), "write both halves, or the character itself"
    elif body.startswith(codecs.BOM_UTF8):
        what, hint = "it begins with a byte order mark", "save it as UTF-8 without one"
    elif what == "invalid character" and body[place : place + 1] in _ESCAPES:
        name, escape = _ESCAPES[body[place : place + 1]]
        what, hint = f"a {name} inside a text", f"write it as {escape}"
    return ApiError("invalid", f"the JSON is malformed: {what} ({_position(body, place)})", hint=hint)


def explain_field(error: msgspec.ValidationError, request: type) -> ApiError:
    """What is wrong with one field of a body or with one parameter."""
    match = _AT.match(str(error))
    text, path = (match["text"], _trim(match["path"])) if match else (str(error), "")
    if found := _UNKNOWN.fullmatch(text):
        return _unknown_field(found[1], path, request)
    if found := _MISSING.fullmatch(text):
        return ApiError("invalid", f'{_in(path)}field "{found[1]}" is missing')
    if found := _ENUM.fullmatch(text):
        known = ", ".join(_choices(_type_at(request, path)))
        return ApiError(
            "invalid",
            f"{_in(path)}{found[1][:_MAX_SHOWN]} is not known",
            hint=f"one of {known}" if known else "",
        )
    if found := _LENGTH.match(text):
        what, unit = ("is too long", "characters") if found[1] in ("str", "bytes") else ("has too many", "entries")
        said = what if found[1] in ("str", "bytes") else f"{what} {unit}"
        return ApiError("invalid", f"{_in(path)}{said}", limit=f"{int(found[2]):,} {unit}")
    if found := _EXPECTED.match(text):
        wanted = [word for word in found[1].split(" | ") if word != "null"] or ["null"]
        said = " or ".join(_WORDS.get(word, word) for word in wanted)
        got = f", got {_WORDS.get(found[2], found[2])}" if found[2] else ""
        return ApiError("invalid", f"{_in(path)}expected {said}{got}")
    return ApiError("invalid", f"{_in(path)}{text}")


def _unknown_field(name: str, path: str, request: type) -> ApiError:
    struct = next(_structs(_type_at(request, path)), None)
    known = list(struct.__struct_encode_fields__) if struct is not None else []
    if name in _NOT_YET:
        return ApiError(
            "invalid", f"{_in(path)}{name} is not supported by this version of Lattice", hint="leave it out"
        )
    close = difflib.get_close_matches(name[:_MAX_SHOWN], known, n=1)
    hint = f'did you mean "{close[0]}"?' if close else f"known: {', '.join(known) or 'none'}"
    return ApiError("invalid", f'{_in(path)}unknown field "{name[:_MAX_SHOWN]}"', hint=hint)


def _not_utf8(body: bytes) -> ApiError | None:
    try:
        body.decode()
    except UnicodeDecodeError as error:
        where = _position(body, error.start)
        return ApiError("invalid", f"the body is not valid UTF-8 ({where})", hint="save the script as UTF-8")
    return None


def _position(body: bytes, place: int) -> str:
    before = body[:place]
    line = before.count(b"\n") + 1
    column = len(before[before.rfind(b"\n") + 1 :].decode(errors="replace")) + 1
    return f"line {line}, column {column}"


def _trim(path: str | None) -> str:
    return (path or "").removeprefix("$").removeprefix(".")


def _in(path: str) -> str:
    return f"{path}: " if path else ""


def _type_at(request: object, path: str) -> object:
    """The declared type of the field at a path such as `resources.nodes` or `features[0]`."""
    here = request
    for name in filter(None, re.split(r"[.\[]", path)):
        if name.endswith("]"):
            here = next((get_args(part)[0] for part in _parts(here) if get_origin(part) in (list, tuple)), None)
            continue
        struct = next((s for s in _structs(here) if name in s.__struct_encode_fields__), None)
        if struct is None:
            return None
        place = struct.__struct_encode_fields__.index(name)
        here = msgspec.structs.fields(struct)[place].type
    return here


def _structs(declared: object) -> Iterator[type[msgspec.Struct]]:
    """Record types among the alternatives of a declared type."""
    for part in _parts(declared):
        if isinstance(part, type) and issubclass(part, msgspec.Struct):
            yield part


def _choices(declared: object) -> Iterator[str]:
    for part in _parts(declared):
        if get_origin(part) is Literal:
            yield from map(str, get_args(part))
        elif isinstance(part, type) and issubclass(part, Enum):
            yield from (str(member.value) for member in part)


def _parts(declared: object) -> tuple[object, ...]:
    return get_args(declared) if isinstance(declared, types.UnionType) else (declared,)
