"""Updates of services on the wire: what may change, what the service runs then, and how the update stands."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from lattice.core.model.ids import allocation_id
from lattice.core.model.nodes.readiness import ReadinessBoard
from lattice.core.model.services.rollouts import Rollout, ServiceRevision
from lattice.core.model.units import BadUnit, parse_duration_s
from lattice.core.model.work.allocations import Allocation, Lifecycle
from lattice.core.model.work.exposure import Exposed
from lattice.core.model.work.readiness import ready_count
from lattice.ports.nodes.probes import ProbeKind
from lattice.wire.bounds import Argument, Short, WholeText
from lattice.wire.services.exposure import ExposedPort
from lattice.wire.services.services import ProbeRequest
from lattice.wire.text.problems import BadField
from lattice.wire.text.texts import check_line
from lattice.wire.text.times import rfc3339
from lattice.wire.work.payloads import Work
from lattice.wire.work.resources import between
from lattice.wire.work.submissions import NO_OPTIONS, ContainerOptions, Images, LifecycleRequest, Submission, work_of

MAX_UNAVAILABLE = 10_000
MIN_READY_WITHIN_S, MAX_READY_WITHIN_S = 1, 86_400
DEFAULT_READY_WITHIN_S = 120
MAX_NOTE = 200
_NOTHING = "the update changes nothing"


class ServiceUpdate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What instances run from now on; what is left out stays as it is."""

    id: Short
    request_id: str = ""
    entrypoint: Argument | list[Argument] | None = None
    script: WholeText | None = None
    script_args: list[Argument] = []
    environment: dict[str, Argument] = {}  # variables that are set, beside those that there are
    unset_environment: list[Argument] = []  # variables that are removed
    uenv: str = ""
    view: str = ""
    tools_uenv: str = ""
    image: str = ""
    container: ContainerOptions = NO_OPTIONS
    liveness_probe: ProbeRequest | None = None
    readiness_probe: ProbeRequest | None = None
    startup_probe: ProbeRequest | None = None
    drain: Short | int | None = None
    max_unavailable: int = 1  # instances that may be away at the same time
    ready_within: Short | int | None = None  # how long each may take to become ready; None = 120 s
    note: Short = ""  # for the history; empty = the names of what was changed


class ServiceRollback(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Take an update that is on its way back, or run an earlier revision again; `to` 0 = the one before."""

    id: Short
    request_id: str = ""
    to: int = 0
    max_unavailable: int = 1
    ready_within: Short | int | None = None


class RevisionView(Struct, frozen=True, kw_only=True):
    """One revision of what a service runs."""

    revision: int
    at: str | None
    by: str
    note: str
    state: str  # current, earlier, taken_back
    reason: str  # why it was taken back


class RolloutView(Struct, frozen=True, kw_only=True):
    """How the newest update stands."""

    state: str  # rolling, done, taking_back, taken_back
    revision: int  # that instances are to have now
    target: int
    former: int
    updated: int  # instances that have the revision
    ready: int
    size: int
    max_unavailable: int
    ready_within_s: int
    began_at: str | None
    ended_at: str | None
    reason: str  # why it is taken back


class RevisionsView(Struct, frozen=True, kw_only=True):
    """What a service runs and ran, the newest first."""

    id: str
    revision: int
    revisions: tuple[RevisionView, ...]
    rollout: RolloutView | UnsetType = UNSET


def as_submission(wanted: ServiceUpdate, tenant: str, exposes: Sequence[Exposed]) -> Submission:
    """The update as a submission of what it names, so that images and fields are read by the same code."""
    has_program = wanted.entrypoint is not None or wanted.script is not None
    return Submission(
        tenant=tenant,
        entrypoint=wanted.entrypoint if has_program else ["true"],
        script=wanted.script,
        script_args=wanted.script_args,
        environment=wanted.environment,
        uenv=wanted.uenv,
        view=wanted.view,
        tools_uenv=wanted.tools_uenv,
        image=wanted.image,
        container=wanted.container,
        lifecycle=LifecycleRequest(type=Lifecycle.UNBOUNDED),
        liveness_probe=wanted.liveness_probe,
        readiness_probe=wanted.readiness_probe,
        startup_probe=wanted.startup_probe,
        expose=[ExposedPort(name=each.name, port=each.port) for each in exposes],  # probes may name them
        drain=wanted.drain,
    )


def revised_work(old: Work, wanted: ServiceUpdate, submission: Submission, images: Images) -> Work:
    """What instances run after the update. Raises BadField."""
    new = work_of(submission, images)
    changes: dict[str, object] = {}
    if wanted.entrypoint is not None or wanted.script is not None:
        changes |= {"argv": new.argv, "script": new.script, "script_args": new.script_args}
    elif wanted.script_args:
        raise BadField("script_args", "arguments of a script need a script", hint='give "script"')
    removed = {check_line(name, "unset_environment") for name in wanted.unset_environment}
    missing = sorted(removed - old.env.keys())
    if missing:
        raise BadField("unset_environment", f'"{missing[0][:60]}" is not set', hint="leave it out")
    if new.env or removed:
        changes["env"] = {name: text for name, text in old.env.items() if name not in removed} | new.env
    if wanted.uenv or wanted.tools_uenv or wanted.view:
        if old.container is not None:
            raise BadField("uenv", "the service runs in a container", hint="submit it again with uenv instead of image")
        changes |= {"images": new.images, "views": new.views}
    if new.container is not None:
        if old.images:
            raise BadField("image", "the service runs with a uenv", hint="submit it again with image instead of uenv")
        changes["container"] = new.container
    if wanted.drain is not None:
        changes["drain_s"] = new.drain_s
    if new.probes:
        kept = [probe for probe in old.probes if probe.kind not in {each.kind for each in new.probes}]
        changes["probes"] = (*kept, *new.probes)
    if not changes:
        raise BadField("", _NOTHING, hint="give a command, --env, --image, --uenv, a probe or --drain")
    return replace(old, **changes)


def is_probed(work: Work) -> bool:
    return any(probe.kind is not ProbeKind.LIVENESS for probe in work.probes)


def note_of(wanted: ServiceUpdate, old: Work, new: Work) -> str:
    """For the history: the user's words, or the names of what was changed."""
    if wanted.note:
        return check_line(wanted.note, "note")[:MAX_NOTE]
    named = {
        "command": (old.argv, old.script, old.script_args) != (new.argv, new.script, new.script_args),
        f"environment ({', '.join(_changed(old.env, new.env))})": old.env != new.env,
        "image": (old.images, old.views, old.container) != (new.images, new.views, new.container),
        "probes": old.probes != new.probes,
        "drain": old.drain_s != new.drain_s,
    }
    return ", ".join(name for name, is_new in named.items() if is_new)[:MAX_NOTE]


def _changed(old: Mapping[str, str], new: Mapping[str, str]) -> Iterable[str]:
    return sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))


def max_unavailable(value: int) -> int:
    return between(value, "max_unavailable", 1, MAX_UNAVAILABLE)


def ready_within_s(value: str | int | None) -> int:
    if value is None:
        return DEFAULT_READY_WITHIN_S
    try:
        seconds = parse_duration_s(str(value))
    except BadUnit as error:
        raise BadField("ready_within", str(error)) from None
    return between(seconds, "ready_within", MIN_READY_WITHIN_S, MAX_READY_WITHIN_S)


def revisions_view(record: Allocation, kept: Iterable[ServiceRevision], board: ReadinessBoard) -> RevisionsView:
    """What is kept, the newest first; a service that was never updated has its first revision alone."""
    known = list(kept) or [
        ServiceRevision(
            number=record.number, revision=record.revision, at=record.submitted_at, by=record.user, note="submitted"
        )
    ]
    return RevisionsView(
        id=allocation_id(record.number),
        revision=record.revision + 1,
        revisions=tuple(_revision(record, each) for each in reversed(known)),
        rollout=UNSET if record.rollout is None else rollout_view(record, record.rollout, board),
    )


def _revision(record: Allocation, kept: ServiceRevision) -> RevisionView:
    past = "taken_back" if kept.taken_back else "earlier"
    state = "current" if kept.revision == record.revision else past
    return RevisionView(
        revision=kept.revision + 1,
        at=rfc3339(kept.at),
        by=kept.by,
        note=kept.note,
        state=state,
        reason=kept.taken_back,
    )


def rollout_view(record: Allocation, rollout: Rollout, board: ReadinessBoard) -> RolloutView:
    parts = record.parts if record.is_holding else ()
    return RolloutView(
        state=rollout.phase.value,
        revision=record.revision + 1,
        target=rollout.target + 1,
        former=rollout.former + 1,
        updated=sum(record.revision_of(part.node) == record.revision for part in parts),
        ready=ready_count(board, record),
        size=max(len(parts), record.size),
        max_unavailable=rollout.max_unavailable,
        ready_within_s=rollout.ready_within_s,
        began_at=rfc3339(rollout.began_at),
        ended_at=rfc3339(rollout.ended_at),
        reason=rollout.reason,
    )
