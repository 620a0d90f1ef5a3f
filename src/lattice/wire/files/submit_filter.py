"""What the site's submit filter is asked and may answer; docs/admin/submit-filter.md describes both."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from lattice.core.machine.commands import SubmitAllocation, UpdateAllocation
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation, Hold
from lattice.wire.text.problems import BadField
from lattice.wire.text.texts import check_line, check_name
from lattice.wire.work.payloads import decode_work

Whole = Annotated[int, Meta(ge=0, le=1 << 40)]
VERSION = 1


class FilterQuestion(Struct, frozen=True, kw_only=True):
    """`user` is whose work it is, `by` who asks and has the `roles`; `changes` names what an update would change."""

    version: int
    event: Literal["submit", "update"]
    user: str
    account: str
    by: str
    roles: tuple[str, ...]
    submission: dict[str, object]
    allocation: str = ""
    changes: tuple[str, ...] = ()


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
_FIGURES = ("nodes", "max_nodes", "cpus", "memory_mb", "gpus")  # that an update may name
_TOP = ("name", "project", "vcluster", "walltime_s", "preemption_class")


def filter_question(command: SubmitAllocation, by: str, roles: tuple[str, ...]) -> bytes:
    question = FilterQuestion(
        version=VERSION,
        event="submit",
        user=command.user,
        account=command.account,
        by=by,
        roles=roles,
        submission=_shown(command, sum(max(0, (last - first) // step + 1) for first, last, step in command.tasks)),
    )
    return msgspec.json.encode(question)


def update_question(
    head: Allocation, wanted: UpdateAllocation, payload: bytes, by: str, roles: tuple[str, ...], tasks: int = 0
) -> bytes:
    """The allocation as it would be after the change."""
    given = _given(wanted)
    tags = {name: value for name, value in head.tags if name not in wanted.drop_tags} | dict(wanted.set_tags)
    after = SubmitAllocation(
        name=given.get("name", head.name),
        user=head.user,
        account=head.account,
        tenant=head.tenant,
        vcluster=given.get("vcluster", head.vcluster),
        request=replace(head.request, **{name: given[name] for name in _FIGURES if name in given}),
        project=head.project,
        lifecycle=head.lifecycle,
        preemption_class=given.get("preemption_class", head.preemption_class),
        walltime_s=given.get("walltime_s", head.walltime_s),
        hold=head.hold,
        tags=tuple(sorted(tags.items())),
        payload=payload,
    )
    is_tagged = bool(wanted.set_tags or wanted.drop_tags)
    question = FilterQuestion(
        version=VERSION,
        event="update",
        user=head.user,
        account=head.account,
        by=by,
        roles=roles,
        submission=_shown(after, tasks),
        allocation=allocation_id(head.number),
        changes=(*given, *(["tags"] if is_tagged else [])),
    )
    return msgspec.json.encode(question)


def _given(wanted: UpdateAllocation) -> dict[str, Any]:
    """What an update names of what a filter judges."""
    named = {name: getattr(wanted, name) for name in ("name", "walltime_s", "preemption_class")}
    if wanted.revision is not None:
        named |= {name: getattr(wanted.revision, name) for name in ("vcluster", *_FIGURES)}
    return {name: value for name, value in named.items() if value is not None}


def _shown(command: SubmitAllocation, tasks: int) -> dict[str, object]:
    work = decode_work(command.payload)
    request = command.request
    return {
        **{name: getattr(command, name) for name in _TOP},
        "tenant": command.tenant,
        "tags": dict(command.tags),
        **{name: getattr(request, name) for name in _REQUEST},
        "lifecycle": command.lifecycle,
        "hold": command.hold is not Hold.NONE,
        "tasks": tasks,
        "script": work.script,
        "argv": work.argv,
        "environment": work.env,
        "cwd": work.cwd,
    }


def read_filter_answer(answer: bytes) -> FilterAnswer:
    """Raises ValueError for what is no answer."""
    return _decoder.decode(answer)


def changed(command: SubmitAllocation, changes: FilterChanges) -> SubmitAllocation:
    """The submission with the changes, checked like what users write. Raises BadField."""
    said = _checked(changes)
    request = {name: said.pop(name) for name in _REQUEST if name in said}
    if "hold" in said:
        # The site's word, which its user cannot take back.
        said["hold"] = Hold.OPERATOR if said["hold"] else Hold.NONE
    return replace(command, request=replace(command.request, **request), **said)


def changed_update(wanted: UpdateAllocation, changes: FilterChanges) -> UpdateAllocation:
    """The update with what the filter says of the fields that it changes itself. Raises BadField."""
    said = _checked(changes)
    own = {name: said[name] for name in _given(wanted) if name in said}
    if "tags" in said and (wanted.set_tags or wanted.drop_tags):
        own["set_tags"] = said["tags"]
    revised = {name: own.pop(name) for name in ("vcluster", *_FIGURES) if name in own}
    if revised and wanted.revision is not None:
        own["revision"] = replace(wanted.revision, **revised)
    return replace(wanted, **own)


def _checked(changes: FilterChanges) -> dict[str, Any]:
    """What the filter names, checked like what users write. Raises BadField."""
    said = {name: value for name in changes.__struct_fields__ if (value := getattr(changes, name)) is not UNSET}
    for name in ("name", "project", "vcluster", "gpu_type"):
        if name in said:
            said[name] = check_name(said[name], name) if name == "name" else check_line(said[name], name)
    if "features" in said:
        said["features"] = tuple(check_line(each, "features") for each in said["features"])
    if "tags" in said:
        tags = said.pop("tags")
        if len(tags) > 64 or any(not key or len(key) > 64 or len(value) > 256 for key, value in tags.items()):
            raise BadField("tags", "too many, or too long")
        said["tags"] = tuple(sorted(tags.items()))
    return said
