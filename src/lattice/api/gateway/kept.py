"""Connections to the work that are kept between two requests: the node has checked each when it was made."""

from collections.abc import Callable, Hashable
from typing import NamedTuple, Protocol

from lattice.ports.nodes.tunnels import Tunnel

# Shorter than servers of the field wait before they close a connection themselves.
KEPT_S = 4.0
MAX_EACH = 64
MAX_KEPT = 2_000


class Reuse(NamedTuple):
    """A connection that was used before, and how long ago."""

    tunnel: Tunnel
    idle_s: float


class Timer(Protocol):
    def __call__(self, delay_s: float, call: Callable[[], None], /) -> object: ...


class KeptTunnels:
    """By whom and what they are for: a connection never serves another user, run or port than it was made for."""

    def __init__(self, now_s: Callable[[], float], later: Timer) -> None:
        self._now_s = now_s
        self._later = later
        self._kept: dict[Hashable, list[tuple[float, Tunnel]]] = {}
        self._count = 0
        self._is_due = False

    def __len__(self) -> int:
        return self._count

    def take(self, key: Hashable, youngest_s: float = KEPT_S) -> Reuse | None:
        """The one that was used last and is still good; None when there is none that was used within `youngest_s`."""
        found = self._kept.get(key)
        while found:
            since_s, tunnel = found[-1]
            idle_s = self._now_s() - since_s
            if tunnel.is_quiet and idle_s > youngest_s:
                return None
            found.pop()
            self._count -= 1
            if tunnel.is_quiet:
                return Reuse(tunnel, idle_s)
            tunnel.close()
        return None

    def keep(self, key: Hashable, tunnel: Tunnel) -> None:
        """Keeps it, or closes it where there are enough."""
        found = self._kept.setdefault(key, [])
        if len(found) >= MAX_EACH or self._count >= MAX_KEPT or not tunnel.is_quiet:
            _leave(tunnel)
            return
        found.append((self._now_s(), tunnel))
        self._count += 1
        self._plan()

    def close(self) -> None:
        for found in self._kept.values():
            for _, tunnel in found:
                _leave(tunnel)
        self._kept.clear()
        self._count = 0

    def _plan(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._later(KEPT_S / 2, self._sweep)

    def _sweep(self) -> None:
        self._is_due = False
        oldest_s = self._now_s() - KEPT_S
        for key, found in list(self._kept.items()):
            good = [each for each in found if each[0] > oldest_s and each[1].is_quiet]
            for each in found:
                if each not in good:
                    _leave(each[1])
            self._count -= len(found) - len(good)
            if good:
                self._kept[key] = good
            else:
                del self._kept[key]
        if self._count:
            self._plan()


def _leave(tunnel: Tunnel) -> None:
    """Ends it between two requests, so that the work sees a regular end and not a reset."""
    tunnel.end()
    tunnel.close()
