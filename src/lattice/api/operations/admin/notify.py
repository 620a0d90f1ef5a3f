"""The caller's notifications: the default subscription, and whether the site sends anything at all."""

from msgspec import Struct

from lattice.api.context import Context, NoParameters
from lattice.api.errors import ApiError
from lattice.api.notifications import ALL_OFF
from lattice.core.machine.commands import SetNotifyDefault
from lattice.core.model.work.notifications import Notify, NotifyDefault
from lattice.wire.work.notifications import NotifyRequest, parse_notify


class NotifyDefaultRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Events to subscribe to, and destinations: `mail:ADDRESS`, `webhook:URL`."""

    on: list[str] = []
    to: list[str] = []
    each_task: bool = False
    request_id: str = ""


class ClearNotifyDefault(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    request_id: str = ""


class NotifySettingsView(Struct, frozen=True, kw_only=True):
    """`channels` are those of the site; `waiting` counts the caller's notifications that are not yet sent."""

    user: str
    on: tuple[str, ...]
    to: tuple[str, ...]
    each_task: bool
    channels: tuple[str, ...]
    own_address: str
    waiting: int
    warnings: tuple[str, ...]


class WebhookKeyView(Struct, frozen=True, kw_only=True):
    """The HMAC-SHA256 key that signs the caller's webhooks."""

    key: str


async def notify_settings(context: Context, request: NoParameters) -> NotifySettingsView:
    """Get the caller's default notifications and the site's channels."""
    return _view(context)


async def set_notify_default(context: Context, request: NotifyDefaultRequest) -> NotifySettingsView:
    """Set the caller's default notifications, for allocations that request none."""
    notify = parse_notify(NotifyRequest(on=request.on, to=request.to, each_task=request.each_task), "")
    own = context.services.notifications.own_address(context.user)
    if notify.on and not notify.to:
        if not own:
            raise ApiError("invalid", "it is not said where notifications go", hint="give mail:ADDRESS or webhook:URL")
        notify = Notify(on=notify.on, to=(own,), each_task=notify.each_task)
    await _set(context, notify, request.request_id)
    return _view(context)


async def clear_notify_default(context: Context, request: ClearNotifyDefault) -> NotifySettingsView:
    """Delete the caller's default notifications."""
    await _set(context, Notify(), request.request_id)
    return _view(context)


async def webhook_key(context: Context, request: NoParameters) -> WebhookKeyView:
    """Get the key that signs the caller's webhooks."""
    key = context.services.notifications.key_of(context.user)
    if not key:
        raise ApiError("not_found", "this site has not enabled webhooks")
    return WebhookKeyView(key=key)


async def _set(context: Context, notify: Notify, request_id: str) -> None:
    default = NotifyDefault(user=context.user, notify=notify)
    await context.carry_out(SetNotifyDefault(default=default), request_id)


def _view(context: Context) -> NotifySettingsView:
    policy, registry = context.services.notifications, context.state.notifications
    default = registry.defaults.get(context.user)
    notify = default.notify if default is not None else Notify()
    problems = [policy.problem_with(place) for place in notify.to] if policy.channels else [ALL_OFF]
    return NotifySettingsView(
        user=context.user,
        on=notify.on,
        to=notify.to,
        each_task=notify.each_task,
        channels=tuple(sorted(policy.channels)),
        own_address=policy.own_address(context.user),
        waiting=registry.per_user.get(context.user, 0),
        warnings=tuple(dict.fromkeys(problem for problem in problems if problem)),
    )
