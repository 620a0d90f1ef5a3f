"""`lattice admin alerts`: what needs attention now."""

from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK
from lattice.cli.output import Column, show_list
from lattice_sdk.models.web.page import Alert

_COLUMNS = (
    Column[Alert]("SEVERITY", lambda alert: alert.severity),
    Column[Alert]("ALERT", lambda alert: alert.name),
    Column[Alert]("WHAT", lambda alert: alert.text),
    Column[Alert]("MORE", lambda alert: alert.command),
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Takes nothing."""


def run(_options: Options, context: Context) -> int:
    found = context.client.list_alerts()
    show_list(context, found, _COLUMNS, name=lambda alert: alert.name)
    return OK


ALERTS = Command(
    lists=True, options=Options, run=run, examples=("lattice admin alerts", "lattice admin alerts -o json")
)
