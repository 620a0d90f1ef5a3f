"""One blob of a registry on its way to this node: in pieces, resumed where it stopped, bounded and verified."""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path

from lattice.agent.images.sources import FetchStopped
from lattice.images.squashfs import BadImage
from lattice.ports.nodes.blobs import BlobRefused, BlobSource, BlobUnavailable

TRIES = 5  # one after another without a single byte
FIRST_PAUSE_S = 0.5
LOOK_EVERY_S = 0.1


class Pull:
    """`size` is how many bytes there may be at most; `count` hears of each piece, of those that were here before as one."""

    def __init__(
        self, source: BlobSource, is_stopped: Callable[[], bool], first_pause_s: float = FIRST_PAUSE_S
    ) -> None:
        self._source = source
        self._is_stopped = is_stopped
        self._first_pause_s = first_pause_s

    def fetch(self, url: str, digest: str, size: int, path: Path, count: Callable[[int], None]) -> None:
        """The blob in the file. What is there of it already is kept, also when this fails.

        Raises BlobUnavailable, BadImage for other bytes, FetchStopped and OSError.
        """
        hashed = hashlib.sha256()
        done = self._begin(path, hashed, count)
        failures = 0
        while True:
            before = done
            try:
                with open(path, "ab") as file:
                    for piece in self._source.read(url, done):
                        if self._is_stopped():
                            raise FetchStopped
                        done += len(piece)
                        if done > size:
                            path.unlink(missing_ok=True)
                            raise BadImage(f"its blob sha256:{digest[:12]}... is larger than it should be")
                        file.write(piece)
                        hashed.update(piece)
                        count(len(piece))
                break
            except BlobRefused:
                raise
            except BlobUnavailable:
                failures = 1 if done > before else failures + 1
                if failures >= TRIES:
                    raise
                self._pause(self._first_pause_s * 2 ** (failures - 1))
        found = hashed.hexdigest()
        if found != digest:
            path.unlink(missing_ok=True)
            raise BadImage(
                f"its blob sha256:{digest[:12]}... has other bytes than its name says: sha256:{found[:12]}..."
            )

    def _begin(self, path: Path, hashed: "hashlib._Hash", count: Callable[[int], None]) -> int:
        try:
            with open(path, "rb") as file:
                while piece := file.read(1 << 20):
                    hashed.update(piece)
                done = file.tell()
        except FileNotFoundError:
            return 0
        count(done)
        return done

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self._is_stopped():
                raise FetchStopped
            time.sleep(LOOK_EVERY_S)
