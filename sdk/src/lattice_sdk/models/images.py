"""Images of the site, in the caches of nodes, and in allocations."""

from msgspec import Struct


class CachedImage(Struct, frozen=True, kw_only=True):
    """An image in the cache of a node; `image` is empty where it is the path of somebody else's image."""

    image: str
    digest: str
    size: int
    idle_s: int | float = 0.0  # since it was used last
    pinned: bool = False  # never evicted
    mounted: bool = False  # work uses it now


class ComingImage(Struct, frozen=True, kw_only=True):
    """An image on its way to a node; with an `error` one that could not be fetched."""

    image: str
    digest: str
    done: int = 0
    total: int = 0  # 0 = not known
    error: str = ""


class NodeCache(Struct, frozen=True, kw_only=True):
    """`error`: why nothing was done on this node, or why it cannot say."""

    node: str
    capacity: int = 0  # bytes for all images together; 0 = the node has no cache
    used: int = 0
    free: int = 0  # of the disk
    images: list[CachedImage] = []
    coming: list[ComingImage] = []
    error: str = ""


class ImageCaches(Struct, frozen=True, kw_only=True):
    """The caches of the nodes that were asked; `digest` is that of an image that is warmed."""

    items: list[NodeCache] = []
    digest: str = ""


class ListedImage(Struct, frozen=True, kw_only=True):
    image: str
    name: str
    version: str
    tag: str
    size: int = 0


class ListedImages(Struct, frozen=True, kw_only=True):
    """By name, version and tag; `directory` is where they are kept, for who may write there."""

    items: list[ListedImage] = []
    directory: str = ""


class Patch(Struct, frozen=True, kw_only=True):
    """A change of a variable: set, append, prepend or unset."""

    variable: str
    operation: str
    values: list[str] = []


class ImageViewpoint(Struct, frozen=True, kw_only=True):
    """A view of an image: what it does to the environment."""

    name: str
    description: str = ""
    patches: list[Patch] = []


class Image(Struct, frozen=True, kw_only=True):
    """An image of the site; `source` is where nodes read it."""

    image: str
    digest: str
    size: int
    source: str = ""
    signed_by: str = ""  # the key of the site that signed it
    mount: str = ""
    description: str = ""
    views: list[ImageViewpoint] = []


class MountedImage(Struct, frozen=True, kw_only=True):
    image: str
    digest: str
    mount: str
    size: int = 0
    views: list[str] = []


class VariableChange(Struct, frozen=True, kw_only=True):
    """What a view did to a variable; `value` is None where the variable was unset."""

    variable: str
    operation: str
    view: str
    value: str | None = None


class RunImages(Struct, frozen=True, kw_only=True):
    """The images of a running allocation as its first node mounted them; nothing of one that does not run."""

    id: str
    node: str = ""
    images: list[MountedImage] = []
    changes: list[VariableChange] = []
