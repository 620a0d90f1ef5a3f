"""`lattice notify`: the user's default notifications."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, UsageError
from lattice.cli.output import sheet, structured
from lattice_sdk.models.notifications import NotifySettings


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    pass


@dataclass(frozen=True, kw_only=True)
class Options:
    events: str = ""
    to: tuple[str, ...] = ()
    each_task: bool = False


def fill(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("events", metavar="EVENTS", help="begin, end, fail, requeue, time-limit-near, alert or all (comma-separated)")
    add("--to", action="append", metavar="WHERE", help="send to mail:ADDRESS or webhook:URL; may be repeated")
    add("--each-task", action="store_true", help="notify about each task of a group instead of the whole group")


def run_set(options: Options, context: Context) -> int:
    words = [word for word in options.events.split(",") if word]
    if not words:
        raise UsageError("no events given", hint="use `lattice notify set end,fail --to mail:you@example.org`")
    return _show(context.client.set_notify_default(words, options.to, each_task=options.each_task), context)


def run_show(_options: NoOptions, context: Context) -> int:
    return _show(context.client.notify_settings(), context)


def run_clear(_options: NoOptions, context: Context) -> int:
    return _show(context.client.clear_notify_default(), context)


def run_key(_options: NoOptions, context: Context) -> int:
    found = context.client.webhook_key()
    if not structured(context, found):
        context.streams.write(f"{found.key}\n")
    return OK


def _show(settings: NotifySettings, context: Context) -> int:
    if not structured(context, settings):
        context.streams.write(sheet(_pairs(settings)))
    for warning in settings.warnings:
        context.warn(warning)
    return OK


def _pairs(settings: NotifySettings) -> list[tuple[str, str]]:
    return [
        ("Events", ", ".join(settings.on) or "none"),
        ("Send to", ", ".join(settings.to) or "-"),
        ("Each task", "yes" if settings.each_task else "no"),
        ("Site channels", ", ".join(settings.channels) or "none"),
        ("Unsent", str(settings.waiting)),
    ]


SET = Command(
    options=Options,
    fill=fill,
    run=run_set,
    examples=(
        "lattice notify set end,fail --to=mail:ada@example.org",
        "lattice notify set all --to=webhook:https://hooks.example.org/lattice",
    ),
)
SHOW = Command(options=NoOptions, run=run_show, examples=("lattice notify show", "lattice notify show -o json"))
CLEAR = Command(options=NoOptions, run=run_clear, examples=("lattice notify clear",))
KEY = Command(options=NoOptions, run=run_key, examples=("lattice notify key",))
