"""Import this first: a short command spends most of its time on imports, and some of them for nothing.

- msgspec takes two names from typing_extensions although typing has both.
- dataclasses takes `signature` from inspect, which brings ast, dis and tokenize with it, to write down how a class without a docstring is
  called. No command reads that.
- The collector of cyclic garbage looks again and again at what is imported and stays. `collect_again` turns it on.

Other modules can import them afterwards.
"""

import gc
import sys


class _Inspect(type(sys)):  # type: ignore[misc]  # the type of modules
    """In the place of the module until more than a signature is asked for."""

    def __getattr__(self, name: str) -> object:
        if name == "signature":
            return lambda _: "(...)"
        if sys.modules.get("inspect") is self:
            del sys.modules["inspect"]
        import inspect

        return getattr(inspect, name)


if "inspect" not in sys.modules and "dataclasses" not in sys.modules:
    gc.disable()
    sys.modules["inspect"] = _Inspect("inspect")
    import dataclasses  # noqa: F401

    if isinstance(sys.modules["inspect"], _Inspect):
        del sys.modules["inspect"]
if "typing_extensions" not in sys.modules:
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # importing it now fails, and msgspec turns to typing
    import msgspec  # noqa: F401

    del sys.modules["typing_extensions"]


def collect_again() -> None:
    """The command is imported and begins; it may run for days."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
