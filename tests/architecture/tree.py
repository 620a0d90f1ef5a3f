"""The files of the repository, as the architecture tests see them."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (ROOT / "src" / "lattice", ROOT / "sdk" / "src" / "lattice_sdk")
GENERATED = ROOT / "src" / "lattice" / "wire" / "pb"


@cache
def files() -> tuple[Path, ...]:
    """Every file that is, or would be, committed."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    paths = (ROOT / name for name in listing.split("\0") if name)
    return tuple(sorted(path for path in paths if path.is_file()))


def written_python() -> Iterator[Path]:
    """Python files that people write: all but the generated ones."""
    return (path for path in files() if path.suffix == ".py" and GENERATED not in path.parents)


def python_under(*folders: Path) -> Iterator[Path]:
    return (path for path in written_python() if any(folder in path.parents for folder in folders))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imports(path: Path) -> Iterator[str]:
    """Dotted names that the module imports anywhere, lazily or not."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
