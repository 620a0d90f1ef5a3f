"""The published OpenAPI document, and whether a new one still keeps what it promised."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lattice.api.rest.openapi import document

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "openapi.json"

Json = dict[str, Any]
# What a change of these says nothing about: words for people, and bounds that may become wider.
_LOOSE = frozenset({"description", "summary", "title", "default", "tags", "maxLength", "maxItems", "info"})


class Breaking(Exception):
    """The code says something else than what was published."""


def generate(*, is_fresh: bool = False) -> str:
    """The document as it belongs into the folder. Raises Breaking when something published is gone or is another thing now."""
    new = document()
    problems = [] if is_fresh or not PAGE.is_file() else list(broken(json.loads(PAGE.read_text()), new))
    if problems:
        raise Breaking("published parts of the interface changed:\n  " + "\n  ".join(problems))
    return json.dumps(new, indent=1) + "\n"


def broken(old: Json, new: Json) -> Iterator[str]:
    """What the new document does not keep of the old one."""
    for path, methods in old["paths"].items():
        for method, operation in methods.items():
            now = new["paths"].get(path, {}).get(method)
            if now is None:
                yield f"{method.upper()} {path} is gone"
            else:
                yield from _broken_operation(f"{method.upper()} {path}", operation, now)
    schemas = new["components"]["schemas"]
    for name, schema in old["components"]["schemas"].items():
        if name not in schemas:
            yield f"{name} is gone"
        else:
            yield from _broken_schema(name, schema, schemas[name])


def _broken_operation(where: str, old: Json, new: Json) -> Iterator[str]:
    now = {(each["in"], each["name"]): each for each in new["parameters"]}
    before = {(each["in"], each["name"]): each for each in old["parameters"]}
    for key, parameter in before.items():
        if key not in now:
            yield f"{where}: parameter {key[1]} is gone"
        elif _essence(now[key]["schema"]) != _essence(parameter["schema"]):
            yield f"{where}: parameter {key[1]} is another thing"
    for key, parameter in now.items():
        if parameter["required"] and not before.get(key, {}).get("required"):
            yield f"{where}: parameter {key[1]} is required now"
    for status in old["responses"].keys() - new["responses"].keys():
        yield f"{where}: no longer answers {status}"
    if "requestBody" in old and _essence(old["requestBody"]) != _essence(new.get("requestBody", {})):
        body = _body_schema(old), _body_schema(new)
        if None in body or "$ref" in (body[0] or {}):
            yield f"{where}: takes another body"
        else:
            yield from _broken_schema(where, body[0] or {}, body[1] or {})


def _body_schema(operation: Json) -> Json | None:
    schema: Json | None = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    return schema


def _broken_schema(where: str, old: Json, new: Json) -> Iterator[str]:
    properties = new.get("properties", {})
    for name, schema in old.get("properties", {}).items():
        if name not in properties:
            yield f"{where}.{name} is gone"
        elif _essence(properties[name]) != _essence(schema) and not _is_wider(schema, properties[name]):
            yield f"{where}.{name} is another thing"
    if old.get("additionalProperties") is False:  # what is asked, not what is answered
        for name in sorted(set(new.get("required", [])) - set(old.get("required", []))):
            yield f"{where}.{name} is required now"
    if "enum" in old and not set(old["enum"]) <= set(new.get("enum", ())):
        yield f"{where} has fewer values"


def _is_wider(old: Json, new: Json) -> bool:
    """Whether everything that the old one takes is taken by the new one: more values, or more kinds."""
    if "enum" in old and "enum" in new:
        return set(old["enum"]) <= set(new["enum"])
    kinds = [_essence(each) for each in new.get("anyOf", [])]
    wanted = [_essence(each) for each in old.get("anyOf", [old])]
    return bool(kinds) and all(each in kinds for each in wanted)


def _essence(schema: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(schema, dict):
        return {key: _essence(value) for key, value in schema.items() if key not in _LOOSE}
    return [_essence(each) for each in schema] if isinstance(schema, list) else schema
