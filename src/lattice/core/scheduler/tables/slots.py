"""Storage under the columns: rows in reusable slots, and values replaced by small integers while anyone uses them.

See docs/architecture/scheduler.md.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Records = npt.NDArray[np.void]

K = TypeVar("K", bound=Hashable)


class Slots:
    """Rows of one structured type. A slot that was given back is zero and is used again."""

    def __init__(self, dtype: np.dtype[np.void], capacity: int = 64) -> None:
        self.data: Records = np.zeros(capacity, dtype)  # replaced when it grows: do not hold on to it
        self.top = 0  # slots below it were given out at some time; all zero above
        self._returned: list[int] = []  # slots below `top` that are free and zero

    def take(self) -> int:
        if self._returned:
            return self._returned.pop()
        if self.top == len(self.data):
            self.data = np.concatenate([self.data, np.zeros(len(self.data), self.data.dtype)])
        self.top += 1
        return self.top - 1

    def give_back(self, slot: int) -> None:
        self.data[slot] = 0
        self._returned.append(slot)


class Names:
    """Numbers for names that stay: vClusters and tenants are never taken away."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    def all(self) -> tuple[str, ...]:
        return tuple(self._numbers)


class Interned(Generic[K]):
    """Small integers for values, counted by use, so that unused values cost nothing."""

    def __init__(self) -> None:
        self.values: list[K | None] = []  # None = not in use
        self.version = 0  # rises whenever `values` changes
        self._numbers: dict[K, int] = {}  # of the values in use; the inverse of `values`
        self._uses: list[int] = []  # by number: `hold`s without a `drop`
        self._returned: list[int] = []  # numbers not in use, to be given again

    def hold(self, value: K) -> int:
        """The number of the value, which stays taken until `drop`."""
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = self._take(value)
        self._uses[number] += 1
        return number

    def number_of(self, value: K) -> int | None:
        """The number of the value while it is in use."""
        return self._numbers.get(value)

    def drop(self, number: int) -> None:
        value = self.values[number]
        self._uses[number] -= 1
        if value is not None and not self._uses[number]:
            del self._numbers[value]
            self.values[number] = None
            self.version += 1
            self._returned.append(number)

    def _take(self, value: K) -> int:
        self.version += 1
        if not self._returned:
            self.values.append(value)
            self._uses.append(0)
            return len(self.values) - 1
        number = self._returned.pop()
        self.values[number] = value
        return number
