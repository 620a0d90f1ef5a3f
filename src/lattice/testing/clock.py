"""A clock that a test moves by hand."""


class HandClock:
    """Implements `Clock`: time is frozen until `pass_s`, which moves both clocks.

    `ms` is the time of day and may be set alone, as an operator sets a machine's clock; `s` is the clock that never jumps.
    """

    def __init__(self, ms: int = 1_000_000_000_000, s: float = 1000.0) -> None:
        self.ms = ms
        self.s = s

    def now_ms(self) -> int:
        return self.ms

    def monotonic_s(self) -> float:
        return self.s

    def pass_s(self, seconds: float) -> None:
        self.s += seconds
        self.ms += int(seconds * 1000)
