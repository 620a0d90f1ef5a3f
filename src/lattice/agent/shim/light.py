"""Small stand-ins for modules of the standard library, for the shim's own process.

Every start of a process forks the shim, and what a fork costs is the memory that the shim has written: the kernel copies its page
tables, then single pages as either side touches them, and undoes all of that at exec. `signal`, `json`, `socket`, `functools` and
`collections` bring `enum`, `re` and hundreds of objects with them, a fifth of that memory, around parts in C that do the work.
The stand-ins are these parts. They are in the place of the real modules only while the shim's modules are imported; whatever is
imported later, by a codec for example, finds the real ones. Elsewhere than in the shim's own process nothing of this happens.
"""

from __future__ import annotations

import _collections_abc
import _socket
import sys

_json, _signal, _functools = (__import__(name) for name in ("_json", "_signal", "_functools"))
_Module = type(sys)
_SPACE = " \t\n\r"


class _Reading:
    """How the scanner reads; as `json.loads` does."""

    strict = True
    object_hook = object_pairs_hook = array_hook = None
    parse_float = parse_constant = float
    parse_int = int


def _refuse(value: object) -> object:
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


try:
    _scan = _json.make_scanner(_Reading())
    _chunks = _json.make_encoder(None, _refuse, _json.encode_basestring_ascii, None, ": ", ", ", False, False, True)
except (AttributeError, TypeError):  # a later Python, whose parts in C are made otherwise
    _scan = _chunks = None


def loads(data: str | bytes | bytearray) -> object:
    """Like `json.loads`; ValueError when it is no JSON."""
    text = (data if isinstance(data, str) else data.decode("utf-8", "surrogatepass")).strip(_SPACE)
    try:
        value, end = _scan(text, 0)
    except StopIteration as stop:
        raise ValueError(f"Expecting value: char {stop.value}") from None
    if end != len(text):
        raise ValueError(f"Extra data: char {end}")
    return value


def dumps(value: object) -> str:
    """Like `json.dumps`."""
    return "".join(_chunks(value, 0))


class Socket(_socket.socket):
    """What `socket.socket` adds, as far as it is used here."""

    __slots__ = ()

    def __enter__(self) -> Socket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def accept(self) -> tuple[Socket, object]:
        number, address = self._accept()  # type: ignore[attr-defined]  # as `socket.socket` itself does
        return Socket(fileno=number), address


def create_connection(address: tuple[str, int]) -> Socket:
    """To an address in numbers."""
    family = _socket.AF_INET6 if ":" in address[0] else _socket.AF_INET
    made = Socket(family, _socket.SOCK_STREAM)
    try:
        made.connect(address)
    except OSError:
        made.close()
        raise
    return made


def _module(name: str, **contents: object) -> object:
    module = _Module(name)
    vars(module).update(contents)
    return module


def _stand_ins() -> dict[str, object]:
    own = {"socket": Socket, "create_connection": create_connection}
    return {
        "signal": _signal,
        "json": _module("json", loads=loads, dumps=dumps),
        "socket": _module("socket", **{**vars(_socket), **own}),
        "functools": _module("functools", partial=_functools.partial),
        "collections": _module("collections", abc=_collections_abc),
        "collections.abc": _collections_abc,
    }


def _fits() -> bool:
    sample = {"a": [1, None, "b"]}
    try:
        return loads(dumps(sample)) == sample
    except (AttributeError, TypeError, ValueError):
        return False


_placed: dict[str, object] = {}


def take_their_place() -> None:
    """Before the shim's modules are imported; modules that are there already stay, and all do where the parts in C do not fit."""
    if not _fits():
        return
    for name, module in _stand_ins().items():
        if name not in sys.modules:
            _placed[name] = sys.modules[name] = module  # type: ignore[assignment]


def step_back() -> None:
    """After that."""
    for name in _placed:
        del sys.modules[name]
    _placed.clear()
