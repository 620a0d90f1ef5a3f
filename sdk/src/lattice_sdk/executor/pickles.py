"""Functions and values as bytes, and the outcomes that tasks write."""

import pickle
from collections.abc import Iterator
from pathlib import Path

from lattice_sdk.errors import LatticeError
from lattice_sdk.executor.task import LENGTH


class NotPicklable(LatticeError):
    """A function or an argument cannot be sent to a node."""


class RemoteTraceback(Exception):
    """Where on the node a call failed; the cause of the exception that its future raises."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


class CallFailed(LatticeError):
    """A call failed with an exception that cannot be sent back; the text is its traceback."""


def dumped(value: object) -> bytes:
    """By cloudpickle where it is installed. Raises NotPicklable."""
    try:
        import cloudpickle  # type: ignore[import-untyped]
    except ImportError:
        cloudpickle = None
    try:
        if cloudpickle is None:
            return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        data: bytes = cloudpickle.dumps(value)
        return data
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        problem = NotPicklable(f"cannot send this to a node: {error}")
        if cloudpickle is None:
            problem.add_note(
                "hint: install cloudpickle (the extra `executor`) for lambdas, closures and what a notebook defines"
            )
        raise problem from error


def outcomes(path: Path) -> Iterator[tuple[bool, object, BaseException | None]]:
    """What a task has written so far: (ok, value, exception); what is not whole is left out."""
    try:
        data = path.read_bytes()
    except OSError:
        return
    at = 0
    while at + LENGTH <= len(data):
        end = at + LENGTH + int.from_bytes(data[at : at + LENGTH], "big")
        if end > len(data):
            return
        yield _outcome(data[at + LENGTH : end])
        at = end


def _outcome(data: bytes) -> tuple[bool, object, BaseException | None]:
    try:
        whole = pickle.loads(data)  # noqa: S301 - written by the user's own task
    except Exception as problem:  # noqa: BLE001 - whatever reading the user's value raises
        return False, None, CallFailed(f"cannot read the result: {type(problem).__name__}: {problem}")
    if whole[0]:
        return True, whole[1], None
    _, error, text = whole
    if not isinstance(error, BaseException):
        return False, None, CallFailed(text)
    error.__cause__ = RemoteTraceback(text)
    return False, None, error
