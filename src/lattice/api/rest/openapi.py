"""The REST interface as an OpenAPI document, made from the operation table."""

import re
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct

from lattice.api.errors import STATUS, ErrorAnswer
from lattice.api.interface import Response, response_of, service_of
from lattice.api.operations.operation import Operation
from lattice.api.operations.table import OPERATIONS

_REF = "#/components/schemas/{name}"
_IN_PATH = re.compile(r"\{(\w+)\}")
# Fields that are headers on this wire.
_HEADERS = {"last_event_id": "Last-Event-ID"}
_TAGS = {"AllocationService": "allocations", "NodeService": "nodes", "AdminService": "administration"}

Json = dict[str, Any]


@cache
def document_bytes() -> bytes:
    """The document as it is served."""
    return msgspec.json.encode(document())


def document() -> Json:
    """The whole document; the same for the same table."""
    records = _records()
    schemas, components = msgspec.json.schema_components(records, ref_template=_REF)
    shown = dict(zip(records, schemas, strict=True))
    paths: dict[str, Json] = {}
    for operation in OPERATIONS:
        described = _operation(operation, shown, components)
        paths.setdefault(f"/api/v1{operation.path}", {})[operation.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {"title": "Lattice", "version": "v1", "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"}},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "responses": {"refused": {"description": "The request was refused", "content": _json(shown[ErrorAnswer])}},
        },
        "security": [{"bearer": []}],
    }


def _records() -> list[Any]:
    found: dict[Any, None] = {ErrorAnswer: None}
    for operation in OPERATIONS:
        found[operation.request] = None
        found.update(dict.fromkeys(response_of(operation).records))
    return list(found)


def _operation(operation: Operation, shown: dict[Any, Json], components: Json) -> Json:
    says = (operation.handle.__doc__ or "").strip().partition("\n")[0]
    described: Json = {
        "operationId": operation.name,
        "summary": says,
        "tags": [_TAGS[service_of(operation)]],
        "x-lattice-permission": str(operation.permission),
        "parameters": _parameters(operation, shown, components),
        "responses": _responses(operation, response_of(operation), shown),
    }
    if operation.method not in ("GET", "DELETE"):
        described["requestBody"] = _body(operation, shown, components)
    return described


def _schema_of(record: type[Struct], shown: dict[Any, Json], components: Json) -> Json:
    schema = shown[record]
    name = schema.get("$ref", "").rpartition("/")[2]
    return components[name] if name else schema


def _parameters(operation: Operation, shown: dict[Any, Json], components: Json) -> list[Json]:
    schema = _schema_of(operation.request, shown, components)
    properties: Json = schema.get("properties", {})
    in_path = _IN_PATH.findall(operation.path)
    listed = [{"name": name, "in": "path", "required": True, "schema": _in_path(properties[name])} for name in in_path]
    in_query: list[str] = [name for name in properties if name in operation.in_query]
    if operation.method in ("GET", "DELETE"):
        in_query = [name for name in properties if name not in in_path]
    required = schema.get("required", [])
    for name in in_query:
        header = _HEADERS.get(name)
        listed.append(
            {
                "name": header or name,
                "in": "header" if header else "query",
                "required": name in required and operation.method == "GET",
                "schema": properties[name],
            }
        )
    return listed


def _in_path(schema: Json) -> Json:
    return {"type": "string", "minLength": 1} if schema.get("type") == "string" else schema


def _body(operation: Operation, shown: dict[Any, Json], components: Json) -> Json:
    in_path = set(_IN_PATH.findall(operation.path))
    if not in_path:
        return {"required": True, "content": _json(shown[operation.request])}
    schema = dict(_schema_of(operation.request, shown, components))
    schema["title"] = f"{operation.name} body"
    schema["properties"] = {name: each for name, each in schema["properties"].items() if name not in in_path}
    schema["required"] = [name for name in schema.get("required", []) if name not in in_path]
    return {"required": bool(schema["required"]), "content": _json(schema)}


def _responses(operation: Operation, response: Response, shown: dict[Any, Json]) -> Json:
    answers: Json = {}
    status = str(operation.status)
    schemas = [shown[record] for record in response.records]
    match response.kind:
        case "text":
            answers[status] = {
                "description": "The bytes as they were written",
                "content": {"text/plain": {"schema": {}}},
            }
        case "tunnel":
            answers["101"] = {
                "description": "From here on the connection carries frames of a length and that many bytes"
            }
        case "events":
            content = {"text/event-stream": {"schema": {"anyOf": schemas}}}
            answers[status] = {"description": "Server-sent events with JSON data", "content": content}
        case "record":
            answers[status] = {"description": "OK", "content": _json(schemas[0])}
        case "choice":
            answers[status] = {"description": "OK", "content": _json(schemas[0])}
            answers["200"] = {"description": "The prediction of a dry run", "content": _json(schemas[-1])}
    refused = {"$ref": "#/components/responses/refused"}
    failures = sorted(status for status in set(STATUS.values()) if status > 500)
    return {**answers, "4XX": refused, **{str(status): refused for status in failures}}


def _json(schema: Json) -> Json:
    return {"application/json": {"schema": schema}}
