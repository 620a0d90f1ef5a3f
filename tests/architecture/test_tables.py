"""Tables keyed by our enumerations: every member has an entry, or the table says why not.

A dict literal is a table when all its keys are members of one enumeration of ours (`None` and `**` may stand beside them). One
that leaves members out on purpose has a comment `# partial: why` on the line of its opening brace or on the line above it.
Without this a new member is found missing by a KeyError in production.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.architecture.tree import PACKAGES, python_under, shown

MARK = "# partial: "
_BASES = {"Enum", "StrEnum", "IntEnum", "Flag", "IntFlag"}
_MOST_ALIASES = 8
EnumId = tuple[str, str]  # module and class


class Sources:
    """Modules by dotted name, with their enumerations and what their names stand for."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._lines = {module: text.splitlines() for module, text in texts.items()}
        self._trees = {module: ast.parse(text) for module, text in texts.items()}
        self._names = {module: _names(module, tree) for module, tree in self._trees.items()}
        self._members: dict[EnumId, frozenset[str]] = {
            (module, node.name): _members(node)
            for module, tree in self._trees.items()
            for node in tree.body
            if isinstance(node, ast.ClassDef) and _is_enumeration(node)
        }

    def incomplete(self) -> Iterator[tuple[str, int, str]]:
        """Module, line and what is missing, for each table that is neither complete nor marked."""
        for module, tree in self._trees.items():
            for node in ast.walk(tree):
                table = self._table(module, node) if isinstance(node, ast.Dict) else None
                if table is None or not isinstance(node, ast.Dict):
                    continue
                enum, has = table
                missing = sorted(self._members[enum] - has)
                if missing and not self._is_marked(module, node):
                    yield module, node.lineno, f"{enum[1]} without {', '.join(missing)}"

    def _table(self, module: str, node: ast.Dict) -> tuple[EnumId, set[str]] | None:
        """The enumeration that the dict is keyed by and the members that it has; None when it is no such table."""
        found: set[EnumId] = set()
        has: set[str] = set()
        for key in node.keys:
            if key is None or (isinstance(key, ast.Constant) and key.value is None):
                continue
            if not isinstance(key, ast.Attribute):
                return None
            enum = self._resolve(module, ast.unparse(key.value))
            if enum is None or key.attr not in self._members[enum]:
                return None
            found.add(enum)
            has.add(key.attr)
        return (found.pop(), has) if len(found) == 1 else None

    def _resolve(self, module: str, dotted: str) -> EnumId | None:
        """The enumeration that a name in a module means, through imports and aliases."""
        for _ in range(_MOST_ALIASES):
            owner, _, name = dotted.rpartition(".")
            if (owner, name) in self._members:
                return owner, name
            if owner in self._names and name in self._names[owner]:
                module, dotted = owner, self._names[owner][name]
                continue
            head, dot, rest = dotted.partition(".")
            meant = self._names[module].get(head, head)
            if meant == head:
                return None
            dotted = meant + dot + rest
        return None

    def _is_marked(self, module: str, node: ast.Dict) -> bool:
        lines = self._lines[module]
        beside = lines[max(0, node.lineno - 2) : node.lineno]
        return any(line.partition(MARK)[2].strip() for line in beside)


def _names(module: str, tree: ast.Module) -> dict[str, str]:
    """What names stand for: dotted names for imports and classes, the right side for plain aliases."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
        elif isinstance(node, ast.Import):
            found.update({alias.asname: alias.name for alias in node.names if alias.asname})
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = f"{module}.{node.name}"
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name | ast.Attribute):
            value = ast.unparse(node.value)
            found.update({target.id: value for target in node.targets if isinstance(target, ast.Name)})
    return found


def _is_enumeration(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).rpartition(".")[2] in _BASES for base in node.bases)


def _members(node: ast.ClassDef) -> frozenset[str]:
    assigned = (statement.targets for statement in node.body if isinstance(statement, ast.Assign))
    names = (target.id for targets in assigned for target in targets if isinstance(target, ast.Name))
    return frozenset(name for name in names if not name.startswith("_"))


def _module_of(path: Path) -> str:
    root = next(package.parent for package in PACKAGES if package in path.parents)
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_tables_keyed_by_our_enumerations_are_complete_or_say_why_not() -> None:
    paths = {_module_of(path): path for path in python_under(*PACKAGES)}
    sources = Sources({module: path.read_text(encoding="utf-8") for module, path in paths.items()})
    wrong = [f"{shown(paths[module])}:{line}: {what}" for module, line, what in sources.incomplete()]
    assert not wrong, "\n".join(["complete these tables, or say `# partial: why`:", *wrong])


COLOURS = "from enum import StrEnum\n\n\nclass Colour(StrEnum):\n    RED = 'r'\n    BLUE = 'b'\n"
TABLE = "from paint.colours import Colour as C\n\n_C = C\nTABLE = {\n    _C.RED: 1,\n    None: 0,\n}\n"
THROUGH_MODULE = "from paint import colours as c\n\nTABLE = {c.Colour.RED: 1, **MORE}\n"


def missing_in(text: str, colours: str = COLOURS) -> list[tuple[str, int, str]]:
    return list(Sources({"paint.colours": colours, "paint.use": text}).incomplete())


def test_a_new_member_is_missed_in_every_table() -> None:
    complete = TABLE.replace("    None", "    _C.BLUE: 2,\n    None")
    assert missing_in(complete) == []
    grown = COLOURS + "    GREEN = 'g'\n"
    assert missing_in(complete, grown) == [("paint.use", 4, "Colour without GREEN")]


def test_tables_are_found_through_aliases_modules_and_other_modules() -> None:
    again = "from paint.colours import Colour\n"
    sources = Sources(
        {
            "paint.colours": COLOURS,
            "paint.again": again,
            "paint.use": TABLE.replace("paint.colours", "paint.again"),
        }
    )
    assert list(sources.incomplete()) == [("paint.use", 4, "Colour without BLUE")]
    assert missing_in(THROUGH_MODULE) == [("paint.use", 3, "Colour without BLUE")]


def test_a_table_may_be_partial_only_with_a_reason() -> None:
    assert missing_in(TABLE.replace("= {", "= {  # partial: blue is never painted")) == []
    assert missing_in(TABLE.replace("TABLE", "# partial: blue is never painted\nTABLE")) == []
    assert missing_in(TABLE.replace("= {", "= {  # partial: ")) != []


def test_other_dicts_are_no_tables() -> None:
    mixed = TABLE.replace("None: 0", "'x': 0")
    assert missing_in(mixed) == []
    assert missing_in("TABLE = {}\n") == []
