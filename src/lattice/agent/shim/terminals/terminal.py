"""A terminal that clients come and go at: whose bytes were taken, whose window counts, and how long it waits for the next client.

Every client counts its own input from its first byte, so a repeated piece is taken once, also while others type. The
terminal has the size of the window of the client who typed last. Its time begins to run when no client reads it;
readers ask at least once a second. See docs/architecture/terminals.md.
"""

from __future__ import annotations

from lattice.agent.shim.launch import integer, seconds

Body = dict[str, object]

# Clients that are remembered; one that was forgotten and repeats a piece would have it taken twice.
MAX_CLIENTS = 256


class Terminal:
    """What the shim knows of a terminal besides its task."""

    __slots__ = ("_shapes", "_taken", "_typist", "ends_run", "keep_s", "marked", "seen_boot_s", "shape", "was_hung_up")

    def __init__(self, request: Body, now_s: float) -> None:
        self.keep_s = seconds(request, "keep_s", 0.0)  # 0 = as long as the run
        self.ends_run = bool(request.get("ends_run"))
        self.seen_boot_s = now_s
        self.was_hung_up = False
        self.shape = (0, 0)
        self.marked = 0  # where the journal says its size last
        self._taken: dict[str, int] = {}  # bytes of each client, by its name; the one that came last stands last
        self._shapes: dict[str, tuple[int, int]] = {}
        self._typist = ""

    def fresh(self, client: str, offset: int, data: bytes) -> bytes | None:
        """What is new of a client's bytes; None when some before them are missing."""
        taken = self._taken.get(client, 0)
        return None if offset > taken else data[taken - offset :]

    def taken_of(self, client: str) -> int:
        return self._taken.get(client, 0)

    def note_typed(self, client: str, count: int) -> tuple[int, int] | None:
        """The client typed; the size that the terminal should have from now on, None when it stays."""
        self._taken[client] = self._taken.pop(client, 0) + count
        while len(self._taken) > MAX_CLIENTS:
            gone = next(iter(self._taken))
            del self._taken[gone]
            self._shapes.pop(gone, None)
        if client == self._typist:
            return None
        self._typist = client
        return self._changed(self._shapes.get(client))

    def note_window(self, client: str, request: Body) -> tuple[int, int] | None:
        """A client has a window of this size; the size that the terminal should have from now on, None when it stays."""
        shape = integer(request, "rows", 24, 10_000), integer(request, "columns", 80, 10_000)
        if len(self._shapes) < MAX_CLIENTS or client in self._shapes:
            self._shapes[client] = shape
        return self._changed(shape) if self._typist in ("", client) else None

    def _changed(self, shape: tuple[int, int] | None) -> tuple[int, int] | None:
        if shape is None or shape == self.shape:
            return None
        self.shape = shape
        return shape

    def due_boot_s(self) -> float:
        """When it has waited long enough for a client; 0 = never."""
        return self.seen_boot_s + self.keep_s if self.keep_s > 0 and not self.was_hung_up else 0.0
