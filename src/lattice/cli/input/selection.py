"""Which allocations a listing shows: the flags that `status` and `history` share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lattice.cli.arranged import add_arranged
from lattice.cli.context import Context
from lattice.cli.output import Arranged
from lattice_sdk.models.records import AllocationFilter


@dataclass(frozen=True, kw_only=True)
class Selection(Arranged):
    """Your own allocations, unless `user` or `all` says otherwise."""

    state: tuple[str, ...] = ()
    user: str = ""
    name: str = ""
    project: str = ""
    tag: tuple[str, ...] = ()
    node: str = ""
    all: bool = False
    tasks: bool = False
    limit: int | None = None


def add_selection(add: Callable[..., Any]) -> None:
    add("--state", action="append", metavar="STATE", help="show only these states (comma-separated)")
    add("--user", metavar="NAME", help="show this user's allocations instead of yours")
    add("--name", metavar="NAME", help="show only allocations with this name")
    add("--project", metavar="NAME", help="show only allocations of this project")
    add("--tag", action="append", metavar="KEY=VALUE", help="show only allocations with this tag; may be repeated")
    add("--node", metavar="NODES", help="show only what runs or ran on these nodes: n1,n[3-5]")
    add("--all", action="store_true", help="show all users' allocations you may see")
    add("--tasks", action="store_true", help="show each task of task groups")
    add("--limit", type=int, metavar="N", help="show only the newest N")
    add_arranged(add)


def selected(options: Selection, context: Context, *, is_anyone: bool = False) -> AllocationFilter:
    """The filter for the server; `is_anyone`: not only the caller's own when no user is named."""
    user = options.user
    if not user and not options.all and not is_anyone:
        user = context.client.whoami().user
    return AllocationFilter(
        states=tuple(part for text in options.state for part in text.split(",") if part),
        user=user,
        tenant=context.flags.tenant or "",
        vcluster=context.flags.vcluster or "",
        name=options.name,
        project=options.project,
        tags=options.tag,
        nodes=options.node,
        is_unfolded=options.tasks,
    )
