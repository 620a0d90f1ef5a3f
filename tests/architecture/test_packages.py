"""The shape of the packages: where code may stand and what it may lean on."""

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.architecture.tree import (
    PACKAGES,
    ROOT,
    files,
    imports,
    parsed,
    python_under,
    shown,
    written_python,
)

LATTICE, SDK = PACKAGES
CORE = LATTICE / "core"

# Package documents of public surfaces; everywhere else __init__.py is empty.
SPEAKING_INITS = {SDK / "__init__.py", LATTICE / "testing" / "__init__.py"}

DRAWERS = {"utils", "util", "common", "helpers", "helper", "misc", "base", "manager"}

# The shim outlives upgrades of everything else and must start fast.
SHIM = LATTICE / "agent" / "shim"
# Words that the shim shares with everybody else; the module itself imports nothing.
SHIM_SHARES = LATTICE / "core" / "model" / "work" / "endings.py"
# A folder that no longer fits on a screen hides the architecture.
MODULES_PER_FOLDER = 20

SDK_MAY_USE = {"msgspec", "lattice_sdk"}
# Packages that one module of the client library imports when a user asks for what it does.
SDK_OPTIONAL = {
    ("audit_export.py", "cryptography"),
    ("configuration.py", "yaml"),
    ("pickles.py", "cloudpickle"),
    ("registered.py", "grpc"),
    ("program.py", "registered"),  # its neighbour, where both were copied beside a program
}

# Builtins whose result differs between processes, or that reach outside.
NOT_IN_CORE = {"hash", "id", "open", "input", "print"}


def top(name: str) -> str:
    return name.partition(".")[0]


def test_import_contracts_are_kept() -> None:
    program = Path(sys.executable).with_name("lint-imports")
    outcome = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_init_files_are_empty() -> None:
    speaking = {
        shown(path) for path in python_under(*PACKAGES) if path.name == "__init__.py" and path.read_text().strip()
    }
    assert speaking <= {shown(path) for path in SPEAKING_INITS}


def test_every_folder_with_code_is_a_package() -> None:
    folders = {path.parent for path in python_under(*PACKAGES)}
    assert {shown(folder) for folder in folders if not (folder / "__init__.py").exists()} == set()


def test_no_folder_holds_more_modules_than_fit_on_a_screen() -> None:
    modules = Counter(path.parent for path in python_under(*PACKAGES) if path.name != "__init__.py")
    assert {shown(folder): count for folder, count in modules.items() if count > MODULES_PER_FOLDER} == {}


def test_no_module_is_a_drawer() -> None:
    found = {
        shown(path)
        for path in written_python()
        if path.stem in DRAWERS or DRAWERS & set(path.relative_to(ROOT).parts[:-1])
    }
    assert found == set()


def test_the_top_of_lattice_holds_packages_only() -> None:
    modules = {path.name for path in files() if path.parent == LATTICE}
    assert modules <= {"__init__.py", "py.typed"}


def test_shim_needs_only_the_standard_library() -> None:
    foreign = {
        f"{shown(path)}: {name}"
        for path in python_under(SHIM)
        for name in imports(path)
        if top(name) not in sys.stdlib_module_names
        and not name.startswith("lattice.agent.shim.")
        and name != "lattice.core.model.work.endings"
    }
    assert foreign == set()
    assert set(imports(SHIM_SHARES)) == set()


def test_sdk_leans_on_msgspec_alone() -> None:
    foreign = {
        f"{shown(path)}: {name}"
        for path in python_under(SDK)
        for name in imports(path)
        if top(name) not in sys.stdlib_module_names
        and top(name) not in SDK_MAY_USE
        and (path.name, top(name)) not in SDK_OPTIONAL
    }
    assert foreign == set()


def test_core_calls_no_builtin_that_varies_or_reaches_outside() -> None:
    calls = {
        f"{shown(path)}:{node.lineno}: {node.func.id}()"
        for path in python_under(CORE)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in NOT_IN_CORE
    }
    assert calls == set()


def test_core_modules_open_with_what_they_decide() -> None:
    silent = {
        shown(path)
        for path in python_under(CORE)
        if path.name != "__init__.py" and ast.get_docstring(parsed(path)) is None
    }
    assert silent == set()
