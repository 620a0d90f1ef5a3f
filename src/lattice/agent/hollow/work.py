"""How long pretended work takes and how it ends, read off what was asked for."""

import random
import re

from msgspec import Struct

from lattice.agent.hollow.durations import NotASpan, span_s
from lattice.agent.machine.state import End
from lattice.ports.nodes.agents import EndCause, StartOrder

_SLEEP = re.compile(r"\bsleep\s+(\d+(?:\.\d+)?)(s|m|h|)\b")
_EXIT = re.compile(r"\bexit\s+(\d{1,3})\b")


class Outcome(Struct, frozen=True, kw_only=True):
    """How long work takes, and how it ends by itself; its walltime may be shorter."""

    work_s: float
    end: End


class Work(Struct, frozen=True, kw_only=True):
    """Durations between the two; without them work takes as long as it says by `sleep N`, or no time."""

    shortest_s: float = 0.0
    longest_s: float | None = None

    def outcome(self, order: StartOrder, source: random.Random) -> Outcome:
        text = " ".join(order.argv) or order.script.decode(errors="replace")
        seconds = _asked_s(text) if self.longest_s is None else source.uniform(self.shortest_s, self.longest_s)
        end = End(cause=EndCause.EXIT, exit_code=_exit_code(text), cpu_s=seconds, elapsed_s=seconds)
        return Outcome(work_s=seconds, end=end)


def parse_work(text: str) -> Work:
    """Reads `SPAN..SPAN` or one span; empty = what was asked for. Raises NotASpan."""
    if not text:
        return Work()
    first, _, last = text.partition("..")
    shortest_s, longest_s = span_s(first), span_s(last or first)
    if longest_s < shortest_s:
        raise NotASpan(f"{text!r}: the longest work is shorter than the shortest")
    return Work(shortest_s=shortest_s, longest_s=longest_s)


def _asked_s(text: str) -> float:
    return sum(span_s(amount + unit) for amount, unit in _SLEEP.findall(text))


def _exit_code(text: str) -> int:
    found = _EXIT.findall(text)
    if found:
        return int(found[-1]) & 255
    return 1 if text.split()[-1:] == ["false"] else 0
