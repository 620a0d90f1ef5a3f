"""Links that log a browser in once."""

from msgspec import Struct

from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.wire.bounds import Short


class MakeWebLink(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    request_id: str = ""


class UseWebLink(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`code` is inside the ticket, which only servers can read."""

    code: Short
    request_id: str = ""


class WebLinkView(Struct, frozen=True, kw_only=True):
    """`path` belongs behind the address of any server. It is good once and for `expires_in_s`."""

    path: str
    expires_in_s: float


class UsedWebLink(Struct, frozen=True, kw_only=True):
    user: str


async def make_web_link(context: Context, request: MakeWebLink) -> WebLinkView:
    """Make a link that logs a browser in as the caller, once and within a minute."""
    links = context.services.web_links
    if links is None:
        raise ApiError("conflict", "the web page is switched off", hint="administrators set web.enabled")
    if context.identity.kind != "user":
        raise ApiError("forbidden", "only people log in to the page", hint="run it outside of allocations")
    if not context.token:
        raise ApiError("invalid", "a link is made from a bearer token, and none was given")
    ticket, expires_in_s = links.make(context.user, context.token)
    return WebLinkView(path=f"/login#{ticket}", expires_in_s=expires_in_s)


async def use_web_link(context: Context, request: UseWebLink) -> UsedWebLink:
    """Use up a link to the web page; servers do this for the browser that opened it."""
    links = context.services.web_links
    if links is None or not links.use_up(context.user, request.code):
        raise ApiError("not_found", "this link was used already, or another server leads since it was made")
    return UsedWebLink(user=context.user)
