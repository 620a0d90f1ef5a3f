"""What the site's submit filter is asked and may answer; docs/admin/submit-filter.md describes both."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from lattice.core.machine.commands import SubmitAllocation
from lattice.core.model.work.allocations import Hold
from lattice.wire.text.problems import BadField
from lattice.wire.text.texts import check_line, check_name
from lattice.wire.work.allocations import decode_work

Whole = Annotated[int, Meta(ge=0, le=1 << 40)]
VERSION = 1


class FilterQuestion(Struct, frozen=True, kw_only=True):
    version: int
    user: str
    account: str
    roles: tuple[str, ...]
    submission: dict[str, object]


class FilterChanges(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields that a filter may change; what it does not name stays."""

    name: str | UnsetType = UNSET
    project: str | UnsetType = UNSET
    vcluster: str | UnsetType = UNSET
    tags: dict[str, str] | UnsetType = UNSET
    nodes: Annotated[int, Meta(ge=1, le=1 << 20)] | UnsetType = UNSET
    max_nodes: Whole | UnsetType = UNSET
    cpus: Whole | UnsetType = UNSET
    memory_mb: Whole | UnsetType = UNSET
    gpus: Whole | UnsetType = UNSET
    gpu_type: str | UnsetType = UNSET
    features: list[str] | UnsetType = UNSET
    exclusive: bool | UnsetType = UNSET
    walltime_s: Whole | UnsetType = UNSET
    preemption_class: Annotated[int, Meta(ge=0, le=10)] | UnsetType = UNSET
    hold: bool | UnsetType = UNSET


class FilterAnswer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    action: Literal["accept", "refuse"]
    message: str = ""  # why it is refused, for the user
    hint: str = ""
    changes: FilterChanges = FilterChanges()
    warnings: list[str] = []


_decoder = msgspec.json.Decoder(FilterAnswer)
_REQUEST = ("nodes", "max_nodes", "cpus", "memory_mb", "gpus", "gpu_type", "features", "exclusive")
_TOP = ("name", "project", "vcluster", "walltime_s", "preemption_class")


def filter_question(command: SubmitAllocation, roles: tuple[str, ...]) -> bytes:
    work = decode_work(command.payload)
    request = command.request
    submission: dict[str, object] = {
        **{name: getattr(command, name) for name in _TOP},
        "tenant": command.tenant,
        "tags": dict(command.tags),
        **{name: getattr(request, name) for name in _REQUEST},
        "lifecycle": command.lifecycle,
        "hold": command.hold is not Hold.NONE,
        "tasks": sum(max(0, (last - first) // step + 1) for first, last, step in command.tasks),
        "script": work.script,
        "argv": work.argv,
        "environment": work.env,
        "cwd": work.cwd,
    }
    question = FilterQuestion(
        version=VERSION, user=command.user, account=command.account, roles=roles, submission=submission
    )
    return msgspec.json.encode(question)


def read_filter_answer(answer: bytes) -> FilterAnswer:
    """Raises ValueError for what is no answer."""
    return _decoder.decode(answer)


def changed(command: SubmitAllocation, changes: FilterChanges) -> SubmitAllocation:
    """The submission with the changes, checked like what users write. Raises BadField."""
    said = {name: value for name in changes.__struct_fields__ if (value := getattr(changes, name)) is not UNSET}
    for name in ("name", "project", "vcluster", "gpu_type"):
        if name in said:
            said[name] = check_name(said[name], name) if name == "name" else check_line(said[name], name)
    request = {name: said.pop(name) for name in _REQUEST if name in said}
    if "features" in request:
        request["features"] = tuple(check_line(each, "features") for each in request["features"])
    if "tags" in said:
        tags = said.pop("tags")
        if len(tags) > 64 or any(not key or len(key) > 64 or len(value) > 256 for key, value in tags.items()):
            raise BadField("tags", "too many, or too long")
        said["tags"] = tuple(sorted(tags.items()))
    if "hold" in said:
        said["hold"] = Hold.USER if said["hold"] else Hold.NONE
    return replace(command, request=replace(command.request, **request), **said)
