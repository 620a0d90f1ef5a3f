"""Which run of which allocation an order or a report is about."""

from msgspec import Struct


class RunKey(Struct, frozen=True, order=True, gc=False):
    """One start of one allocation; ordered by allocation, then by run."""

    number: int
    run: int

    def __str__(self) -> str:
        return f"{self.number}.{self.run}"
