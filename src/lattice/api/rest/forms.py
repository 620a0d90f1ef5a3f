"""Other forms in which a submission may be written: inside `allocation` or `dag`, and a task group as a template with a range."""

from typing import Any

import msgspec

from lattice.api.errors import ApiError
from lattice.wire.work.dags import DagSubmission
from lattice.wire.work.submissions import Submission

# Fields that may stand beside `allocation` or `dag`.
_BESIDE = frozenset({"request_id", "dry_run", "name"})
_WRAPPERS: dict[type[msgspec.Struct], str] = {Submission: "allocation", DagSubmission: "dag"}
# What a submission to the other address begins with.
_ELSEWHERE: dict[type[msgspec.Struct], tuple[str, str]] = {
    Submission: ("dag", "/api/v1/dags"),
    DagSubmission: ("allocation", "/api/v1/allocations"),
}


def plain_form(request: type[msgspec.Struct], body: bytes) -> bytes | None:
    """The body as the fields of the request; None when it is in no other form. Raises ApiError for half of one."""
    wrapper = _WRAPPERS.get(request)
    if wrapper is None:
        return None
    try:
        given = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(given, dict):
        return None
    if (place := _ELSEWHERE.get(request)) and place[0] in given:
        raise ApiError("invalid", f'"{place[0]}" is not submitted here', hint=f"send it to POST {place[1]}")
    fields = _unwrapped(given, wrapper)
    if request is Submission and "type" in fields:
        fields = _ungrouped(fields)
    return None if fields is given else msgspec.json.encode(fields)


def _unwrapped(given: dict[str, Any], wrapper: str) -> dict[str, Any]:
    inner = given.get(wrapper)
    if not isinstance(inner, dict):
        return given
    beside = {name: value for name, value in given.items() if name != wrapper}
    strays = sorted(beside.keys() - _BESIDE)
    if strays:
        raise ApiError("invalid", f'"{strays[0][:60]}" must stand inside "{wrapper}"')
    return {**inner, **beside}


def _ungrouped(given: dict[str, Any]) -> dict[str, Any]:
    """`type: task_group` with a template and a range as a submission with tasks."""
    kind = given["type"]
    if kind != "task_group":
        raise ApiError("invalid", f'type: "{str(kind)[:60]}" is not known', hint='"task_group", or no type at all')
    template, tasks = given.get("template"), given.get("range")
    if not isinstance(template, dict) or not isinstance(tasks, dict):
        raise ApiError("invalid", "a task group needs a template and a range", hint='"range": {"start": 0, "end": 99}')
    concurrency = {"concurrency": given["concurrency"]} if "concurrency" in given else {}
    rest = {name: given[name] for name in given.keys() - {"type", "template", "range", "concurrency"}}
    twice = sorted(rest.keys() & template.keys())
    if twice:
        raise ApiError("invalid", f'"{twice[0][:60]}" stands in the template and beside it')
    return {**template, **rest, "tasks": {**tasks, **concurrency}}
