"""`lattice whoami`: who the server takes the token's owner for."""

from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK
from lattice.cli.output import show_one
from lattice.cli.times import stamp_text


@dataclass(frozen=True, kw_only=True)
class Options:
    """Takes nothing."""


def run(_options: Options, context: Context) -> int:
    who = context.client.whoami()
    if context.flags.quiet and context.output in {"table", "wide"}:
        context.streams.write(f"{who.user}\n")
        return OK
    pairs = [
        ("User", who.user),
        ("Account", who.account),
        ("Tenant", who.tenant or ""),
        ("Tenants", ", ".join(who.tenants)),
        ("Roles", ", ".join(who.roles)),
        ("Expires", stamp_text(who.expires_at) or "never"),
    ]
    if who.allocation is not None:
        pairs.append(("Allocation", str(who.allocation)))
    show_one(context, who, pairs)
    return OK


COMMAND = Command(options=Options, run=run, examples=("lattice whoami", "lattice whoami -o json"))
