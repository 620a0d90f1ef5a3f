"""Import this before anything that imports msgspec, which takes two names from typing_extensions although typing has both.

That module takes 5 ms, a tenth of a short command. Everybody else can import it afterwards.
"""

import sys

if "typing_extensions" not in sys.modules:
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # importing it now fails, and msgspec turns to typing
    import msgspec  # noqa: F401

    del sys.modules["typing_extensions"]
