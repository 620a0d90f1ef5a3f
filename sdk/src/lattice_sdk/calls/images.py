"""Images: those of the site, in the caches of nodes, and in allocations."""

from collections.abc import Sequence

from lattice_sdk.models.images import Image, ImageCaches, ListedImages, RunImages
from lattice_sdk.operation import Steps, at, given, operation, read, write

NodeSet = str | Sequence[str]
LONGEST_S = 120.0


class ImageCalls:
    @operation
    def list_images(self, find: str = "") -> Steps[ListedImages]:
        """The images of the site's registry, or those whose name contains a text."""
        return read("/images", ListedImages, given(find=find))

    @operation
    def get_image(self, image: str) -> Steps[Image]:
        """One image of the site's registry, with its views."""
        return read("/images/one", Image, [("image", image)], timeout_s=LONGEST_S)

    @operation
    def run_images(self, allocation_id: str) -> Steps[RunImages]:
        """What a running allocation has mounted, and what views did to its environment."""
        return read(at("allocations", allocation_id, "images"), RunImages)

    @operation
    def cache_status(self, nodes: str = "", group: str = "") -> Steps[ImageCaches]:
        """What is in the image caches of these nodes, or of all."""
        return read("/cache", ImageCaches, given(nodes=nodes, group=group), timeout_s=LONGEST_S)

    @operation
    def warm_cache(self, image: str, nodes: NodeSet = "", group: str = "") -> Steps[ImageCaches]:
        """Have nodes fetch an image before work needs it; `cache_status` says how far they are."""
        return _order("warm", {"image": image}, nodes, group)

    @operation
    def evict_image(
        self, image: str = "", nodes: NodeSet = "", group: str = "", *, all: bool = False
    ) -> Steps[ImageCaches]:
        """Remove an image from caches, or with `all` every image that is neither pinned nor in use."""
        return _order("evict", {"image": image, "all": all}, nodes, group)

    @operation
    def pin_image(self, image: str, nodes: NodeSet = "", group: str = "") -> Steps[ImageCaches]:
        """Keep an image in caches: it is not evicted."""
        return _order("pin", {"image": image}, nodes, group)

    @operation
    def unpin_image(self, image: str, nodes: NodeSet = "", group: str = "") -> Steps[ImageCaches]:
        """Let an image be evicted again."""
        return _order("unpin", {"image": image}, nodes, group)


def _order(what: str, fields: dict[str, object], nodes: NodeSet, group: str) -> Steps[ImageCaches]:
    body = {**fields, "nodes": nodes if isinstance(nodes, str) else list(nodes), "group": group}
    return write("POST", at("cache", what), ImageCaches, body, timeout_s=LONGEST_S)
