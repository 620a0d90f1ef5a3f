"""What servers ask about the images of this node, and order about them: the cache, warming it, and what a run has mounted."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from lattice.agent.images.cache import CacheFull, SourceFailed, WrongDigest
from lattice.agent.images.fetching import FetchStopped, ImageFetcher
from lattice.agent.images.mounting import REPORT, ImagesReport
from lattice.agent.images.sources import Reader
from lattice.images.references import NOT_CACHED
from lattice.images.squashfs import BadImage
from lattice.ports.nodes.agents import RunKey
from lattice.ports.nodes.blobs import BlobUnavailable
from lattice.ports.nodes.images import CachedImage, ComingImage, ImageOrder, ImagesAsk, NodeImagesTold
from lattice.wire.agents.messages import IMAGES_ASK, IMAGES_TOLD
from lattice.wire.pb import agent_pb2 as pb

NO_CACHE = "this node has no image cache"
MAX_WARMING = 64  # images at the same time, and errors that are remembered
MAX_CHANGES = 2000
MAX_VALUE = 4096
SYSTEM = Reader(name="root", uid=0, gid=0)

_log = logging.getLogger(__name__)


class ImageQuestions:
    """`fetcher` is None on a node that mounts no images; `folder_of` is where a run keeps its files."""

    def __init__(
        self,
        fetcher: ImageFetcher | None,
        folder_of: Callable[[RunKey], Path],
        post: Callable[[pb.AgentMessage], None],
    ) -> None:
        self._fetcher = fetcher
        self._folder_of = folder_of
        self._post = post
        self._tasks: set[asyncio.Task[None]] = set()
        self._warming: dict[str, ImageOrder] = {}
        self._failed: dict[str, ComingImage] = {}

    def received(self, message: pb.ServerMessage) -> bool:
        """Whether it was a question about images, which is answered before long."""
        if not message.HasField("ask_images"):
            return False
        self._begin(self._answer(message.ask_images))
        return True

    async def _answer(self, asked: pb.AskImages) -> None:
        try:
            told = await self.answer(IMAGES_ASK.read(asked))
        except OSError as error:
            told = NodeImagesTold(error=f"the image cache cannot be used: {error.strerror}")
        message = IMAGES_TOLD.write(told)
        message.ticket = asked.ticket
        self._post(pb.AgentMessage(images_told=message))

    async def answer(self, ask: ImagesAsk) -> NodeImagesTold:
        """What is to be answered, after it was done. Raises OSError."""
        if ask.what == "run":
            return await asyncio.to_thread(self._of_run, ask.key)
        if self._fetcher is None:
            return NodeImagesTold(error=NO_CACHE)
        error = ""
        match ask.what:
            case "cache":
                pass
            case "warm" if ask.image is not None and not ask.image.by_user:
                error = self._warm(self._fetcher, ask.image)
            case "evict" | "pin" | "unpin":
                error = await asyncio.to_thread(self._change, self._fetcher, ask)
                self._fetcher.on_change()
            case _:
                error = f'this node cannot do "{ask.what[:40]}" with images'
        told = await asyncio.to_thread(self._state, self._fetcher)
        return msgspec.structs.replace(told, error=error)

    def _begin(self, work: "asyncio._CoroutineLike[None]") -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _warm(self, fetcher: ImageFetcher, image: ImageOrder) -> str:
        if image.digest in self._warming:
            return ""
        if len(self._warming) >= MAX_WARMING:
            return f"{MAX_WARMING} images are on their way to this node already"
        self._failed.pop(image.digest, None)
        self._warming[image.digest] = image
        self._begin(self._fetch(fetcher, image))
        return ""

    async def _fetch(self, fetcher: ImageFetcher, image: ImageOrder) -> None:
        try:
            await fetcher.obtain(image, SYSTEM)
        except (SourceFailed, WrongDigest, BadImage, CacheFull, BlobUnavailable, FetchStopped, OSError) as error:
            why = str(error) or "the fetch was stopped"
            _log.warning("cannot warm the cache: %s", why)
            while len(self._failed) >= MAX_WARMING:
                del self._failed[next(iter(self._failed))]
            self._failed[image.digest] = ComingImage(reference=image.reference, digest=image.digest, error=why)
        finally:
            del self._warming[image.digest]

    def _change(self, fetcher: ImageFetcher, ask: ImagesAsk) -> str:
        cache = fetcher.cache
        if ask.what == "evict" and not ask.name:
            for digest in cache.entries():
                cache.evict(digest)  # what is pinned or used stays
            return ""
        found = cache.find(ask.name)
        if not found:
            return f"{ask.name} {NOT_CACHED}"
        if len(found) > 1:
            return f"{ask.name} names {len(found)} images of this node: write the digest"
        if ask.what != "evict":
            cache.pin(found[0], pinned=ask.what == "pin")
            return ""
        why = cache.evict(found[0])
        return f"{ask.name} stays: {why}" if why else ""

    def _state(self, fetcher: ImageFetcher) -> NodeImagesTold:
        cache = fetcher.cache
        # Before what is there: an image that arrives meanwhile is in both lists, and never in none.
        coming = {each.digest: each for each in fetcher.coming()}
        for digest, image in list(self._warming.items()):
            waiting = ComingImage(reference=image.reference, digest=digest, total=image.size)
            coming.setdefault(digest, waiting)
        entries, mounted = cache.entries(), cache.in_use()
        capacity, free = cache.space()
        return NodeImagesTold(
            capacity=capacity,
            used=sum(entry.size for entry in entries.values()),
            free=free,
            images=tuple(
                CachedImage(
                    reference=entry.reference,
                    digest=digest,
                    size=entry.size,
                    idle_s=cache.idle_s(entry),
                    pinned=entry.sticky,
                    mounted=digest in mounted,
                )
                for digest, entry in entries.items()
            ),
            coming=(*coming.values(), *(each for each in self._failed.values() if each.digest not in coming)),
        )

    def _of_run(self, key: RunKey | None) -> NodeImagesTold:
        try:
            content = (self._folder_of(key) / REPORT).read_bytes() if key is not None else b"{}"
            report = msgspec.json.decode(content, type=ImagesReport)
        except (OSError, msgspec.DecodeError):
            return NodeImagesTold()
        changes = tuple(
            msgspec.structs.replace(each, value=each.value[:MAX_VALUE]) if each.value else each
            for each in report.changes[:MAX_CHANGES]
        )
        return NodeImagesTold(mounted=report.images, changes=changes)
