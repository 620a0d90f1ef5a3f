"""Notifications on the wire: the words in which people ask for them, and what is sent to a webhook or by mail."""

import hmac
import re
from hashlib import sha256
from urllib.parse import urlsplit

from msgspec import Struct

from lattice.core.model.ids import allocation_id
from lattice.core.model.units import format_duration
from lattice.core.model.work.allocations import AllocationState, Cause
from lattice.core.model.work.endings import group_sentence, sentence
from lattice.core.model.work.notifications import MAX_DESTINATIONS, Notification, Notify, Occasion
from lattice.wire.text.problems import BadField
from lattice.wire.text.times import rfc3339

ALL = (Occasion.BEGIN, Occasion.END, Occasion.FAIL, Occasion.REQUEUE)
MAX_URL = 2000
MAX_ADDRESS = 254
MAIL, WEBHOOK = "mail", "webhook"
_EACH_TASK = frozenset({"tasks", "array_tasks"})
_WORDS: dict[str, tuple[Occasion, ...]] = {
    **{occasion.value: (occasion,) for occasion in Occasion if occasion is not Occasion.BUDGET},
    "all": ALL,
    "none": (),
    "time_limit_near": (Occasion.TIME_LIMIT_90,),
    "invalid_depend": (Occasion.FAIL,),
}
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?")
_HINT = f"of {', '.join(each for each in Occasion if each is not Occasion.BUDGET)}, time-limit-near, all, none; tasks = of each task of a group"


class NotifyRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Events, and destinations: `mail:ADDRESS`, `webhook:URL`; without destinations, those of the user's default."""

    on: list[str] | str = []
    to: list[str] = []
    each_task: bool = False


def parse_notify(wanted: NotifyRequest, field: str = "notify") -> Notify:
    """The checked request. Raises BadField."""
    on, each_task = _occasions(wanted.on, f"{field}.on")
    if len(wanted.to) > MAX_DESTINATIONS:
        raise BadField(f"{field}.to", "too many", current=str(len(wanted.to)), limit=str(MAX_DESTINATIONS))
    to = tuple(dict.fromkeys(check_destination(text, f"{field}.to") for text in wanted.to))
    return Notify(on=on, to=to, each_task=each_task or wanted.each_task)


def _occasions(words: list[str] | str, field: str) -> tuple[tuple[Occasion, ...], bool]:
    texts = words.split(",") if isinstance(words, str) else [word for text in words for word in text.split(",")]
    found: dict[Occasion, None] = {}
    each_task = False
    for text in texts:
        word = text.strip().lower().replace("-", "_")
        if word in _EACH_TASK:
            each_task = True
        elif word in _WORDS:
            found.update(dict.fromkeys(_WORDS[word]))
        elif word:
            raise BadField(field, f'"{text[:60]}" is not an event', hint=_HINT)
    return tuple(occasion for occasion in Occasion if occasion in found), each_task


def is_mail_address(text: str) -> bool:
    """Whether it is one address and nothing else: no list, no group, no name beside it."""
    return len(text) <= MAX_ADDRESS and _ADDRESS.fullmatch(text) is not None


def check_destination(text: str, field: str) -> str:
    """`mail:ADDRESS` or `webhook:URL`; a bare address or URL is understood. Raises BadField."""
    kind, separator, rest = text.strip().partition(":")
    kind = kind.lower()
    if kind in ("http", "https"):
        kind, rest = WEBHOOK, text.strip()
    elif not separator and "@" in text:
        kind, rest = MAIL, text.strip()
    if kind == MAIL:
        if not is_mail_address(rest):
            raise BadField(field, f'"{rest[:60]}" is no mail address')
        return f"{MAIL}:{rest}"
    if kind == WEBHOOK:
        return f"{WEBHOOK}:{_checked_url(rest, field)}"
    raise BadField(field, f'cannot read "{text[:60]}"', hint="write mail:ADDRESS or webhook:URL")


def _checked_url(url: str, field: str) -> str:
    if len(url) > MAX_URL or not url.isascii() or any(char <= " " or char == "\x7f" for char in url):
        raise BadField(field, f'"{url[:60]}" is no address of a webhook', limit=f"{MAX_URL} printable characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise BadField(field, f'"{url[:60]}" is no address of a webhook') from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise BadField(field, f'"{url[:60]}" is no address of a webhook', hint="write https://HOST/PATH")
    if parts.username is not None or parts.password is not None:
        raise BadField(field, "an address of a webhook may hold no password", hint="the signature says who sends")
    return url


def channel_of(destination: str) -> str:
    """`mail` or `webhook`."""
    return destination.partition(":")[0]


def address_of(destination: str) -> str:
    return destination.partition(":")[2]


def webhook_key(secret: bytes, user: str) -> str:
    """The key with which a user's webhooks are signed; it is good for this user's alone."""
    return hmac.new(secret, b"lattice webhook key\0" + user.encode(), sha256).hexdigest()


def webhook_signature(key: str, timestamp: str, body: bytes) -> str:
    """What stands in `X-Lattice-Signature` behind `sha256=`."""
    return hmac.new(key.encode(), timestamp.encode() + b"." + body, sha256).hexdigest()


class TaskEnds(Struct, frozen=True, kw_only=True):
    completed: int
    failed: int
    cancelled: int


class NoticeView(Struct, frozen=True, kw_only=True):
    """The body of a webhook."""

    id: str
    event: Occasion
    at: str | None
    allocation: str
    number: int
    name: str
    user: str
    tenant: str
    project: str
    vcluster: str
    state: str
    run: int
    cause: str | None
    exit_code: int | None
    signal: int | None
    message: str
    ending: str  # one sentence about an end that was not exit code 0
    nodes: tuple[str, ...]
    node_count: int
    submitted_at: str | None
    started_at: str | None
    completed_at: str | None
    walltime_s: int
    group_id: str | None
    task_index: int | None
    tasks: TaskEnds | None


def notice_view(notification: Notification) -> NoticeView:
    ends = notification.tasks
    return NoticeView(
        id=notification.id,
        event=notification.occasion,
        at=rfc3339(notification.at),
        allocation=allocation_id(notification.allocation) if notification.allocation else "",
        number=notification.allocation,
        name=notification.name,
        user=notification.user,
        tenant=notification.tenant,
        project=notification.project,
        vcluster=notification.vcluster,
        state=notification.state,
        run=notification.run,
        cause=notification.cause or None,
        exit_code=notification.exit_code,
        signal=notification.signal or None,
        message=notification.message,
        ending=_sentence(notification),
        nodes=notification.nodes,
        node_count=notification.node_count,
        submitted_at=rfc3339(notification.submitted_at),
        started_at=rfc3339(notification.started_at),
        completed_at=rfc3339(notification.ended_at),
        walltime_s=notification.walltime_s,
        group_id=allocation_id(notification.group) if notification.group else None,
        task_index=notification.task_index if notification.group else None,
        tasks=None if ends is None else TaskEnds(completed=ends[0], failed=ends[1], cancelled=ends[2]),
    )


def _sentence(notification: Notification) -> str:
    """How the work ended, where this is about an end that was not exit code 0."""
    cause = notification.cause
    if not cause and notification.state == AllocationState.CANCELLED:
        cause = Cause.CANCELLED.value  # of a whole group
    if notification.occasion not in _ENDS or not notification.ended_at or not cause:
        return ""
    name, ends = allocation_id(notification.allocation), notification.tasks
    told = sentence(
        name,
        cause,
        exit_code=notification.exit_code,
        signal=notification.signal,
        walltime_s=notification.walltime_s,
        message=notification.message,
        has_run=bool(notification.started_at),
    )
    return told if ends is None or not ends[1] else group_sentence(name, ends[1], sum(ends), worst=told)


_ENDS = (Occasion.END, Occasion.FAIL, Occasion.TIME_LIMIT)
_HAPPENED = {
    Occasion.BEGIN: "began",
    Occasion.END: "ended",
    Occasion.FAIL: "failed",
    Occasion.REQUEUE: "was requeued",
    Occasion.TIME_LIMIT: "ran out of time",
    Occasion.PREEMPT: "was preempted",
    Occasion.ALERT: "may be in trouble",
    Occasion.BUDGET: "uses up its budget",
    Occasion.TIME_LIMIT_50: "has used 50% of its walltime",
    Occasion.TIME_LIMIT_80: "has used 80% of its walltime",
    Occasion.TIME_LIMIT_90: "has used 90% of its walltime",
}


def notice_text(notification: Notification) -> tuple[str, str]:
    """Subject and body of a mail."""
    told = notice_view(notification)
    what = f"{told.allocation} {told.name}" if told.allocation else f"tenant {told.tenant}"
    subject = f"Lattice: {what} {_HAPPENED[notification.occasion]}"
    if notification.occasion in (Occasion.END, Occasion.FAIL) and told.cause:
        subject += f" ({_ending(told)})"
    rows = [(name, text) for name, text in _rows(told) if text]
    width = max(len(name) for name, _ in rows) + 1
    table = "".join(f"{name + ':':<{width}} {text}\n" for name, text in rows)
    return subject, f"{told.ending}.\n\n{table}" if told.ending else table


def _ending(told: NoticeView) -> str:
    if told.cause == "exit" and told.exit_code is not None:
        return f"exit code {told.exit_code}"
    return f"signal {told.signal}" if told.signal else str(told.cause)


def _rows(told: NoticeView) -> list[tuple[str, str]]:
    nodes = ",".join(told.nodes)
    if told.node_count > len(told.nodes):
        nodes += f" and {told.node_count - len(told.nodes)} more"
    tasks = told.tasks
    return [
        ("Allocation", told.allocation),
        ("Task", "" if told.group_id is None else f"{told.task_index} of {told.group_id}"),
        ("Name", told.name),
        ("State", told.state),
        ("Cause", told.cause or ""),
        ("Exit code", "" if told.exit_code is None else str(told.exit_code)),
        ("Signal", "" if told.signal is None else str(told.signal)),
        ("Message", told.message),
        ("Tasks", "" if tasks is None else _task_text(tasks)),
        ("User", told.user),
        ("Tenant", told.tenant),
        ("Project", told.project),
        ("vCluster", told.vcluster),
        ("Nodes", nodes),
        ("Run", str(told.run) if told.run > 1 else ""),
        ("Submitted", told.submitted_at or ""),
        ("Started", told.started_at or ""),
        ("Ended", told.completed_at or ""),
        ("Walltime", format_duration(told.walltime_s) if told.walltime_s else ""),
    ]


def _task_text(tasks: TaskEnds) -> str:
    return f"{tasks.completed} completed, {tasks.failed} failed, {tasks.cancelled} cancelled"
