"""Which release is installed: `pyproject.toml` alone says its number."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def installed_release() -> str:
    """The number; `unknown` for code that was not installed."""
    try:
        return version("lattice")
    except PackageNotFoundError:
        return "unknown"
