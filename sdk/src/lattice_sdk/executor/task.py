"""What runs on a node: the calls of one chunk, one after the other, each outcome written before the next begins.

Started by its path (`python -P task.py DIRECTORY`), so it imports the standard library alone until the calls are read.
DIRECTORY has `path` (where modules are found), `function` (what `map` calls) and N.in, N.out for task N of the group.
An outcome is its length in 8 bytes and a pickle: (True, value) or (False, exception or None, its text).
"""

import os
import pickle
import sys
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO

LENGTH = 8

Call = tuple[Callable[..., object] | None, tuple[object, ...], dict[str, object]]


def main(directory: str, index: str) -> int:
    with open(os.path.join(directory, "path"), "rb") as file:
        sys.path += [folder for folder in pickle.load(file) if folder not in sys.path]  # noqa: S301 - the user's own files
    with open(os.path.join(directory, f"{index}.out"), "wb") as out:
        try:
            function = _loaded(os.path.join(directory, "function"))
            calls: list[Call] = _loaded(os.path.join(directory, f"{index}.in"))
        except Exception as error:  # noqa: BLE001 - told to the caller
            _write(out, _failure(error))
            return 1
        for own, args, kwargs in calls:
            _write(out, _outcome(own or function, args, kwargs))
    return 0


def _loaded(path: str) -> Any:  # noqa: ANN401 - whatever the user pickled
    with open(path, "rb") as file:
        return pickle.load(file)  # noqa: S301 - the user's own files


def _outcome(function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> bytes:
    try:
        return _dumped((True, function(*args, **kwargs)))
    except Exception as error:  # noqa: BLE001 - told to the caller
        return _failure(error)


def _failure(error: Exception) -> bytes:
    text = "".join(traceback.format_exception(error))
    try:
        data = _dumped((False, error, text))
        pickle.loads(data)  # noqa: S301 - an exception may be written and not be read
    except Exception:  # noqa: BLE001 - then its text has to do
        return pickle.dumps((False, None, text))
    return data


def _dumped(value: object) -> bytes:
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        cloudpickle = sys.modules.get("cloudpickle")  # there when the call needed it
        if cloudpickle is None:
            raise
        data: bytes = cloudpickle.dumps(value)
        return data


def _write(out: BinaryIO, data: bytes) -> None:
    out.write(len(data).to_bytes(LENGTH, "big") + data)
    out.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], os.environ["LATTICE_TASK_INDEX"]))
