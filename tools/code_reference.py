"""The parts of docs/reference that explain names in the code: commands, configuration keys, settings, metrics, error and exit codes.

The explanations are the help texts and the comments beside the names, so that there is one source. What has none fails.
"""

import argparse
import ast
import inspect
import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import FieldInfo, fields

from lattice.agent.figures.figures import FAMILIES as AGENT_FAMILIES
from lattice.api.errors import STATUS
from lattice.api.grpc.statuses import STATUS as GRPC_STATUS
from lattice.cli import errors as cli_errors
from lattice.cli.flags import GLOBAL_FLAGS
from lattice.cli.parsing import EXIT_CODES, build_parser, load_command
from lattice.cli.registry import leaves
from lattice.config.schema import ServerConfig
from lattice.config.sections.values import DurationText, Listen, Name
from lattice.core.model.site.settings import SETTINGS
from lattice.observe.figures.specified import SPECIFIED, Waits

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "lattice"
FAMILIES = {"Counter", "Gauge", "Histogram", "CounterMetricFamily", "GaugeMetricFamily"}
WIDTH = 140


class Unexplained(Exception):
    """A name that the reference has to list has no explanation beside it."""


def pages(note: str) -> dict[str, str]:
    made = {
        "cli.md": commands(),
        "configuration.md": configuration(),
        "settings.md": settings(),
        "metrics.md": metrics(),
        "errors.md": error_codes(),
        "exit-codes.md": exit_codes(),
    }
    return {name: "\n".join([note, *lines, ""]) for name, lines in made.items()}


# Comments as explanations.


class Comments:
    """The comments of a module by line, without those for tools."""

    def __init__(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(text)
        self._path = path
        self._trailing: dict[int, str] = {}
        self._alone: dict[int, str] = {}
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type is tokenize.COMMENT and not re.match(r"# (noqa|type: ignore|partial)", token.string):
                is_alone = not token.line[: token.start[1]].strip()
                (self._alone if is_alone else self._trailing)[token.start[0]] = token.string.lstrip("# ")

    def beside(self, node: ast.stmt | ast.expr, name: str) -> str:
        """The comment lines above a node, then those at the ends of its own lines."""
        above: list[str] = []
        line = node.lineno - 1
        while line in self._alone:
            above.insert(0, self._alone[line])
            line -= 1
        own = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        text = " ".join([*above, *(self._trailing[line] for line in own if line in self._trailing)])
        if not text:
            raise Unexplained(f"{self._path.relative_to(ROOT)}: {name} has no comment that explains it")
        return text


class Explanations:
    """What the comments say of each key of a section, its own and those that it inherits."""

    def __init__(self, kind: type[Struct]) -> None:
        self._kind = kind
        self._stated: dict[str, tuple[Comments, ast.AnnAssign]] = {}
        for parent in reversed(kind.__mro__):
            if issubclass(parent, Struct) and parent is not Struct:
                comments = comments_of(Path(inspect.getfile(parent)))
                body = next(n for n in comments.tree.body if isinstance(n, ast.ClassDef) and n.name == parent.__name__)
                keys = (node for node in body.body if isinstance(node, ast.AnnAssign))
                self._stated |= {node.target.id: (comments, node) for node in keys if isinstance(node.target, ast.Name)}

    def __getitem__(self, key: str) -> str:
        comments, node = self._stated[key]
        return comments.beside(node, f"{self._kind.__name__}.{key}")


@cache
def comments_of(path: Path) -> Comments:
    return Comments(path)


def wrapped(text: str) -> list[str]:
    """A docstring as lines of prose."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) >= WIDTH:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def cell(text: str) -> str:
    return text.replace("|", "\\|")


# The command line.


def commands() -> list[str]:
    found = [(words, leaf) for words, leaf in leaves() if not leaf.is_hidden]
    lines = [
        "# Commands",
        "",
        "Every command of `lattice`. `lattice COMMAND --help` shows the same, with the global flags.",
        "",
    ]
    lines += ["| command | |", "|---|---|"]
    for words, leaf in found:
        name = " ".join(("lattice", *words))
        lines.append(f"| [{name}](#{name.replace(' ', '-')}) | {cell(leaf.summary)} |")
    for words, leaf in found:
        command = load_command(leaf)
        parser = build_parser(words, leaf, command)
        lines += ["", f"## {' '.join(('lattice', *words))}", f"{leaf.summary[0].upper()}{leaf.summary[1:]}.", ""]
        rows = [f"| `{_written(action)}` | {cell(_help(action, parser))} |" for action in _own(parser)]
        lines += ["| | |", "|---|---|", *rows, ""] if rows else []
        lines += ["```sh", *command.examples, "```"]
    first = found[0]
    parser = build_parser(*first, load_command(first[1]))
    lines += ["", "## Global flags", "Every command takes these.", "", "| | |", "|---|---|"]
    return lines + [f"| `{_written(action)}` | {cell(_help(action, parser))} |" for action in _shared(parser)]


def _shared(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for group in parser._action_groups if group.title == GLOBAL_FLAGS for action in group._group_actions]


def _own(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    shared = _shared(parser)
    return [
        action
        for action in parser._actions
        if action not in shared and action.help is not argparse.SUPPRESS and action.dest != "help"
    ]


def _written(action: argparse.Action) -> str:
    name = action.metavar or action.dest.upper()
    value = "" if action.nargs == 0 else name if isinstance(name, str) else " ".join(name)
    many = f"{value}..." if action.nargs in ("*", "+") else value
    return " ".join(word for word in (", ".join(action.option_strings), many) if word)


def _help(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    if not action.help:
        raise Unexplained(f"{parser.prog}: {_written(action)} has no help text")
    return " ".join(parser._get_formatter()._expand_help(action).split())


# The configuration of a server.


def configuration() -> list[str]:
    lines = [
        "# Configuration of a server",
        "",
        "The keys of the file that `lattice-server --config` reads. A key that does not exist is refused by name.",
        "A duration is a number of seconds or a text such as `500ms`, `10s`, `5m`, `1h30m`.",
        "Secrets may be references: `env://NAME`, `file:///path`, `vault://path#key`. Settings that change while servers run: [settings](settings.md).",
    ]
    for path, kind in _sections(ServerConfig, ""):
        lines += ["", f"## {path}" if path else "## Top level"]
        lines += wrapped(kind.__dict__["__doc__"]) if kind.__dict__.get("__doc__") else []
        lines += ["", "| key | type | default | |", "|---|---|---|---|"]
        explanations = Explanations(kind)
        hints = get_type_hints(kind, include_extras=True)
        for field in fields(kind):
            inner = struct_of(hints[field.name])
            if inner is not None:
                shown = "table" if get_origin(hints[field.name]) is not list else "list of tables"
                text = f"see [{_joined(path, field.name)}](#{_joined(path, field.name).replace('.', '')})"
                lines.append(f"| `{field.name}` | {shown} | | {text} |")
                continue
            text = explanations[field.name]
            lines.append(
                f"| `{field.name}` | {cell(_type(hints[field.name]))} | {_default(field, hints[field.name])} | {cell(text)} |"
            )
    return lines


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _sections(kind: type[Struct], path: str) -> Iterator[tuple[str, type[Struct]]]:
    yield path, kind
    for name, hint in get_type_hints(kind, include_extras=True).items():
        inner = struct_of(hint)
        if inner is not None:
            yield from _sections(inner, _joined(path, name))


def struct_of(hint: Any) -> type[Struct] | None:  # noqa: ANN401 - any annotation
    inner = get_args(hint)[0] if get_origin(hint) is list else hint
    return inner if isinstance(inner, type) and issubclass(inner, Struct) else None


_NAMED = {Name: "name", Listen: "HOST:PORT"}
_PLAIN = {str: "text", int: "whole number", float: "number", bool: "true or false"}


def _type(hint: Any) -> str:  # noqa: ANN401 - any annotation
    """How a person writes a value of this type."""
    if hint in _NAMED:
        return _NAMED[hint]
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _bounded(inner[0], inner[1:])
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in inner)
    if origin is list:
        return f"list of: {_type(inner[0])}"
    if origin is dict:
        return f"table of: {_type(inner[1])}"
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_type(each) for each in inner if each is not NoneType))
    return _PLAIN[hint]


def _bounded(hint: Any, marks: tuple[Any, ...]) -> str:  # noqa: ANN401 - any annotation
    if any(isinstance(mark, DurationText) for mark in marks):
        return "duration" if any(isinstance(mark, Meta) and mark.gt == 0 for mark in marks) else "duration, or 0"
    bounds = next(mark for mark in marks if isinstance(mark, Meta))
    least, most = bounds.ge, bounds.le
    if bounds.gt is not None and most is not None:
        return f"{_type(hint)}, above {bounds.gt:,} to {most:,}"
    span = f", {least:,} to {most:,}" if most is not None else f", at least {least:,}" if least is not None else ""
    return _type(hint) + span


def _default(field: FieldInfo, hint: Any) -> str:  # noqa: ANN401 - any annotation
    if field.required:
        return "required"
    value = field.default_factory() if field.default is NODEFAULT else field.default
    if value in ("", [], {}, None):
        return ""
    if is_duration(hint):
        return f"`{duration_text(float(value))}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:,}`" if isinstance(value, int) else f"`{value}`"


def is_duration(hint: Any) -> bool:  # noqa: ANN401 - any annotation
    return any(isinstance(mark, DurationText) for mark in get_args(hint))


def duration_text(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:,.0f}{unit}"
    return f"{seconds:g}s" if seconds >= 1 else f"{seconds * 1000:g}ms"


# Settings of the cluster.


def settings() -> list[str]:
    lines = [
        "# Settings of the cluster",
        "",
        "Settings are shared by all servers and change while they run: `lattice admin config set KEY VALUE`, `lattice admin config list`.",
        "Where a key of the [configuration](configuration.md) says the same, the setting wins once it is set.",
        "",
        "| setting | type | default | |",
        "|---|---|---|---|",
    ]
    for key, setting in sorted(SETTINGS.items()):
        if not setting.help:
            raise Unexplained(f"the setting {key} has no help text")
        text = setting.help if setting.is_read else f"{setting.help}; has no effect yet and cannot be set"
        lines.append(
            f"| `{key}` | {setting.kind} | {f'`{setting.default}`' if setting.default else ''} | {cell(text)} |"
        )
    return lines


# Metrics.


class Family(NamedTuple):
    kind: str
    labels: tuple[str, ...]
    help: str


def metric_families() -> dict[str, Family]:
    """Every metric that the source makes, by the name under which a server shows it."""
    found: dict[str, Family] = {}
    for path in sorted((SOURCE / "observe").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
            if isinstance(node, ast.Call) and name in FAMILIES and (len(node.args) > 1 or node.keywords):
                words = [
                    text for text in node.args[:2] if isinstance(text, ast.Constant) and isinstance(text.value, str)
                ]
                if len(words) < 2:
                    raise Unexplained(
                        f"{path.relative_to(ROOT)}:{node.lineno}: a metric needs its name and help as literals"
                    )
                labels = next(
                    (
                        each
                        for each in [*node.args[2:], *(k.value for k in node.keywords)]
                        if isinstance(each, ast.List)
                    ),
                    None,
                )
                kind = name.removesuffix("MetricFamily").lower()
                shown = str(words[0].value) + ("_total" if kind == "counter" else "")
                found[shown] = Family(kind, tuple(ast.literal_eval(labels)) if labels else (), str(words[1].value))
    return found


def metrics() -> list[str]:
    found = {name: (family.kind, family.labels, family.help) for name, family in metric_families().items()}
    agents = {name: tuple(family) for name, family in AGENT_FAMILIES.items()}
    private = {name for name, (_, labels, _) in found.items() if "tenant" in labels}
    return [
        "# Metrics",
        "",
        "In the text format of Prometheus. Rules for alerts: [alerts](alerts.md); how to collect them: [monitoring](../admin/monitoring.md).",
        "",
        "## Servers: `/metrics`",
        "",
        "Public: no tenant, project, user or allocation is named; vClusters are. Metrics of loops are shown by the leader only.",
        "",
        *_families({name: each for name, each in found.items() if name not in private}),
        "",
        "## Servers: `/metrics/tenants`",
        "",
        "For tokens of the roles SystemAdmin and Operator, and for tokens with the scope `readonly` that belong to no tenant.",
        "",
        *_families({name: found[name] for name in private}),
        "",
        "## Agents: `/metrics` at `--metrics-listen`",
        "",
        *_families(agents),
        "",
        "## Not there yet",
        "",
        "Names of the specification whose feature does not exist yet.",
        "",
        "| metric | waits for |",
        "|---|---|",
        *(
            f"| `{name}` | {place.feature} |"
            for name, place in sorted(SPECIFIED.items())
            if isinstance(place, Waits) and name not in found
        ),
    ]


def _families(found: Mapping[str, Any]) -> list[str]:
    lines = ["| metric | kind | labels | |", "|---|---|---|---|"]
    for name, (kind, labels, text) in sorted(found.items()):
        lines.append(f"| `{name}` | {kind} | {', '.join(labels)} | {cell(text)} |")
    return lines


# Codes.


def error_codes() -> list[str]:
    comments = Comments(SOURCE / "api" / "errors.py")
    table = next(
        node.value
        for node in comments.tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Dict)
        and ast.unparse(node.targets[0]) == "STATUS"
    )
    stated = {ast.literal_eval(key): key for key in table.keys if key is not None}
    if unknown := used_codes() - STATUS.keys():
        raise Unexplained(f"refusals use codes that api/errors.py does not know: {', '.join(sorted(unknown))}")
    lines = [
        "# Error codes",
        "",
        "`code` of the error object, for programs. The other fields are for people: `message`, `current`, `requested`, `limit`, `hint`.",
        "",
        "| code | HTTP | gRPC | |",
        "|---|---|---|---|",
    ]
    for code, status in STATUS.items():
        text = comments.beside(stated[code], f"the error code {code}")
        lines.append(f"| `{code}` | {status} | {GRPC_STATUS[code].name} | {cell(text)} |")
    return lines


def used_codes() -> set[str]:
    """Codes of every refusal that the source makes."""
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            given = [k.value for k in node.keywords if k.arg == "code"] if node.func.id == "Rejected" else []
            given += node.args[:1] if node.func.id == "ApiError" else []
            found |= {each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)}
    return found


def exit_codes() -> list[str]:
    rows: Mapping[int, str] = {
        int(code): text for code, text in re.findall(r"^  (\d+) +(.+)$", EXIT_CODES, re.MULTILINE)
    }
    known = {value for name, value in vars(cli_errors).items() if name.isupper() and isinstance(value, int)}
    rest = EXIT_CODES.split("141")[1].partition("\n")[2]
    if missing := {code for code in known if code not in rows and str(code) not in rest}:
        raise Unexplained(f"EXIT_CODES in cli/parsing.py does not explain {sorted(missing)}")
    lines = ["# Exit codes", "", "## lattice", "", "| code | |", "|---|---|"]
    lines += [f"| {code} | {cell(text)} |" for code, text in rows.items()]
    lines += [
        "",
        *wrapped(rest),
        "",
        "## Daemons and tools",
        "0 is success.",
        "",
        "| program | code | |",
        "|---|---|---|",
    ]
    for path in sorted((SOURCE / "daemons" / "programs").glob("*.py")):
        comments = Comments(path)
        for node in comments.tree.body:
            name = ast.unparse(node.targets[0]) if isinstance(node, ast.Assign) else ""
            if isinstance(node, ast.Assign) and name.startswith("EXIT_"):
                program = PROGRAMS[path.stem]
                lines.append(f"| {program} | {ast.literal_eval(node.value)} | {cell(comments.beside(node, name))} |")
    return lines


PROGRAMS = {
    "agent": "`lattice-agent`",
    "mover": "`lattice-mover`",
    "quorum": "`lattice-quorum`",
    "backup": "`lattice-backup`",
    "replay": "`rm-replay`",
    "server": "`lattice-server`",
    "supervisor": "`lattice-supervisor`",
}
