"""What nodes said last of their instances of services: observations beside the state, never in the log.

See docs/architecture/services.md.
"""

from msgspec import Struct

MAX_KEPT = 200_000


class Standing(Struct, frozen=True, kw_only=True, gc=False):
    """What a node said of its instance of a run."""

    run: int
    instance: int
    ready: bool
    text: str = ""


class ReadinessBoard:
    """The newest word of every node on each of its instances; `lattice.core.model.work.readiness` reads it."""

    def __init__(self) -> None:
        self._told: dict[tuple[int, str], Standing] = {}

    def note(self, number: int, node: str, told: Standing) -> None:
        self._told.pop((number, node), None)
        self._told[number, node] = told
        if len(self._told) > MAX_KEPT:
            del self._told[next(iter(self._told))]

    def get(self, number: int, node: str) -> Standing | None:
        return self._told.get((number, node))
