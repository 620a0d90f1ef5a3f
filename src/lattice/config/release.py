"""Which release is installed: `pyproject.toml` alone says its number."""

from functools import cache


@cache
def installed_release() -> str:
    """The number; `unknown` for code that was not installed."""
    # Takes 10 ms, which no program should wait for at its start.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("lattice-hpc")
    except PackageNotFoundError:
        return "unknown"
