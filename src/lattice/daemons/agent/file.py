"""The configuration file of an agent: every flag is a key, with underscores for dashes. The command line overrides the file.

The keys are those of the parser itself, so that a new flag is a key at once.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import msgspec

from lattice.config.load import ConfigError, read
from lattice.config.sections.values import DurationText

OWN_FLAGS = frozenset(
    {"help", "version", "config", "check_config", "connect", "example_config"}
)  # of the command line alone
LISTS = frozenset(
    {"servers", "enroll_servers", "features", "networks", "telemetry_without"}
)  # flags whose value is `a,b,c`

# What an agent of the packaged unit begins with.
EXAMPLE = {
    "node_id": "n1",
    "state_dir": "/var/lib/lattice/agent",
    "token_file": "/etc/lattice/agent-token",
    "metrics_listen": "0.0.0.0:9103",
    "servers": "[s1.example.org:50052, s2.example.org:50052, s3.example.org:50052]",
}

_FLAG = re.compile(r"--([a-z][a-z-]*)")

Seconds = Annotated[float, DurationText()]
Words = str | list[str]


def add_file_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="YAML file in which every flag is a key: --node-id is node_id"
    )
    parser.add_argument(
        "--check-config", action="store_true", help="check flags and configuration file, say what was found, and exit"
    )
    parser.add_argument(
        "--connect", action="store_true", help="with --check-config: also try to reach each of the servers"
    )
    parser.add_argument(
        "--example-config",
        action=_PrintExample,
        nargs=0,
        help="print a configuration file with every key and its meaning, and exit",
    )


class _PrintExample(argparse.Action):
    """Needs no other flag, so it acts while the line is read."""

    def __call__(self, parser: argparse.ArgumentParser, *_rest: object) -> NoReturn:
        sys.stdout.write(example(parser))
        raise SystemExit(0)


def example(parser: argparse.ArgumentParser) -> str:
    """A file with what every agent needs, and all other keys behind `#`."""
    lines = [
        "# Keys of lattice-agent. Those behind `#` are not set. Check the file with: lattice-agent --config FILE --check-config"
    ]
    for action in parser._actions:
        if action.dest not in OWN_FLAGS:
            meaning = (action.help or "") % {**vars(action), "prog": parser.prog}
            given = EXAMPLE.get(action.dest)
            value = given or ("true" if action.nargs == 0 else action.metavar or "TEXT")
            lines += ["", f"# {meaning}", f"{'' if given else '# '}{action.dest}: {value}"]
    return "\n".join([*lines, ""])


def with_file(
    parser: argparse.ArgumentParser, words: Sequence[str], places: MutableMapping[str, str] | None = None
) -> list[str]:
    """The words of the command line behind those that its configuration file stands for. Raises ConfigError.

    `places` gets where each key stands in the file that the command line does not override.
    """
    first = argparse.ArgumentParser(prog=parser.prog, add_help=False, allow_abbrev=False)
    first.add_argument("--config", type=Path)
    path = first.parse_known_args(words)[0].config
    if path is None:
        return list(words)
    found: dict[str, str] = {}
    of_file = list(_words_of(path, parser, found))
    said = {word.partition("=")[0] for word in words}
    if places is not None:
        places.update({key: place for key, place in found.items() if f"--{key.replace('_', '-')}" not in said})
    return [*of_file, *words]


def with_place(error: Exception, places: Mapping[str, str]) -> str:
    """The text with file, line and key before it, where it is about a key of the file."""
    text = str(error)
    flag = _FLAG.match(text)
    key = getattr(error, "key", "") or (flag[1].replace("-", "_") if flag else "")
    return f'{places[key]}: "{key}": {text}' if key in places else text


def _words_of(path: Path, parser: argparse.ArgumentParser, places: MutableMapping[str, str]) -> Iterator[str]:
    actions = {action.dest: action for action in parser._actions if action.dest not in OWN_FLAGS}
    schema = msgspec.defstruct(
        "AgentFile", [(name, _type_of(action), None) for name, action in actions.items()], kw_only=True
    )
    values, place_of = read(path, schema)
    for name, action in actions.items():
        value = getattr(values, name)
        if value is not None:
            places[name] = place_of(name)
        for text in () if value is None else _texts(name, action, value):
            if text is None:
                yield action.option_strings[-1]
                continue
            _check(action, text, f'{place_of(name)}: "{name}"')
            yield f"{action.option_strings[-1]}={text}"


def _type_of(action: argparse.Action) -> Any:  # noqa: ANN401 - a type for msgspec
    if action.nargs == 0:
        return bool
    if action.choices is not None:
        return Literal[tuple(action.choices)]
    if isinstance(action, argparse._AppendAction) or action.dest in LISTS:
        return Words
    if action.metavar == "SECONDS":
        return Seconds
    return bool | int | float | str if callable(action.type) and action.type is not Path else str


def _texts(name: str, action: argparse.Action, value: object) -> Iterator[str | None]:
    """One text for each time the flag stands for; None for a flag without a value."""
    if action.nargs == 0:
        if value:
            yield None
    elif isinstance(value, bool):
        yield "on" if value else "off"  # which YAML takes for true and false
    elif name in LISTS and isinstance(value, list):
        yield ",".join(value)
    elif isinstance(value, list):
        yield from value
    else:
        yield str(value)


def _check(action: argparse.Action, text: str, where: str) -> None:
    if not callable(action.type):
        return
    try:
        action.type(text)
    except argparse.ArgumentTypeError as error:
        raise ConfigError(f"{where}: {error}") from error
    except ValueError as error:
        raise ConfigError(f"{where}: {text!r} is not a value of {action.option_strings[-1]}") from error
