"""`lattice admin config`: settings of the cluster."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, UsageError
from lattice.cli.output import Column, show_list, structured
from lattice_sdk.models.records import Setting


@dataclass(frozen=True, kw_only=True)
class Options:
    words: tuple[str, ...] = ()


def _value(setting: Setting) -> str:
    value = setting.value
    return str(value).lower() if isinstance(value, bool) else str("" if value is None else value)


COLUMNS: tuple[Column[Setting], ...] = (
    Column("KEY", lambda s: s.key),
    Column("VALUE", _value),
    Column("DEFAULT", lambda s: s.default, is_wide=True),
    Column("MEANING", lambda s: s.help, is_wide=True),
)


def fill_get(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs=1, metavar="KEY", help="name of the setting")


def fill_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="+", metavar="KEY=VALUE", help="setting and its new value; also: KEY VALUE")


def run_get(options: Options, context: Context) -> int:
    setting = context.client.get_setting(options.words[0])
    if not structured(context, setting):
        context.streams.write(_value(setting) + "\n")
    return OK


def run_set(options: Options, context: Context) -> int:
    key, value = _key_and_value(options.words)
    setting = context.client.set_setting(key, value)
    if not structured(context, setting):
        context.say(f"{setting.key} = {_value(setting)}")
    return OK


def _key_and_value(words: tuple[str, ...]) -> tuple[str, str]:
    if len(words) == 2 and "=" not in words[0]:
        return words[0], words[1]
    key, separator, value = words[0].partition("=")
    if len(words) != 1 or not separator or not key:
        raise UsageError("give one KEY=VALUE", hint="lattice admin config set scheduling.interval=5")
    return key, value


def run_list(_options: Options, context: Context) -> int:
    show_list(context, context.client.list_settings(), COLUMNS, name=lambda setting: setting.key)
    return OK


GET = Command(
    options=Options,
    fill=fill_get,
    run=run_get,
    examples=("lattice admin config get agent.grace_s",),
)
SET = Command(
    options=Options,
    fill=fill_set,
    run=run_set,
    examples=("lattice admin config set agent.grace_s=60",),
)
LIST = Command(
    lists=True,
    options=Options,
    run=run_list,
    examples=("lattice admin config list", "lattice admin config list -o wide"),
)
