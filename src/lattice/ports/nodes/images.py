"""Images on their way to work: what an order names, and what a node says of those that it has.

Their fields have the names of `proto/lattice/v1/agent.proto`, as those of the orders in `ports/nodes/agents.py`.
"""

from msgspec import Struct

from lattice.ports.nodes.run_keys import RunKey


class ImageOrder(Struct, frozen=True, kw_only=True, gc=False):
    """One image that a run has mounted: always these bytes, whatever its name means by then."""

    reference: str  # as the user named it
    digest: str  # sha256 of the file, in hexadecimal
    source: str  # where the node gets the file: a path, or the URL of a blob
    mount: str = ""  # empty = where the image itself wants to be
    size: int = 0  # bytes; 0 = not known
    by_user: bool = False  # the source is a path that the user named, and is read with the user's rights
    kind: str = ""  # empty = a squashfs file; "oci" = an OCI image: the digest is that of its manifest
    signed_by: str = ""  # the key of the site that signed the digest; empty = it is not signed


class ContainerOrder(Struct, frozen=True, kw_only=True, gc=False):
    """The file system that a run sees instead of the node's."""

    image: ImageOrder
    binds: tuple[str, ...] = ()  # SRC:DST[:ro] of what the user may read
    writable: bool = False  # changes are kept in memory until the run ends
    workdir: str = ""  # empty = where the run starts anyway
    no_home: bool = False  # without the user's home directory
    name: str = ""  # under which steps find it
    way: str = ""  # how a step means that name; empty = it joins what runs, uses what is there, or begins it


class CachedImage(Struct, frozen=True, kw_only=True):
    """An image in the cache of a node."""

    reference: str
    digest: str
    size: int
    idle_s: float = 0.0  # since it was used last
    pinned: bool = False  # never evicted
    mounted: bool = False  # work uses it now


class ComingImage(Struct, frozen=True, kw_only=True):
    """An image on its way to a node, or with an error one that could not be fetched; `total` is 0 while it is not known."""

    reference: str
    digest: str
    done: int = 0
    total: int = 0
    error: str = ""


class MountedImage(Struct, frozen=True, kw_only=True):
    """An image that a run has mounted, with the views of it that were applied."""

    reference: str
    digest: str
    mount: str
    size: int
    views: tuple[str, ...] = ()


class VariableChange(Struct, frozen=True, kw_only=True):
    """What a patch of a view did to a variable; without a value the variable is unset."""

    variable: str
    operation: str
    view: str
    value: str | None = None


class ImagesAsk(Struct, frozen=True, kw_only=True):
    """`what`: cache, warm, evict, pin, unpin, run. `name` is a reference or a digest; with evict empty = all that can go."""

    what: str
    image: ImageOrder | None = None
    name: str = ""
    key: RunKey | None = None


class NodeImagesTold(Struct, frozen=True, kw_only=True):
    """The cache of a node after what was asked was done, or the error; the last two are of one run."""

    error: str = ""
    capacity: int = 0  # bytes for all images together; 0 = the node has no cache
    used: int = 0
    free: int = 0  # of the disk
    images: tuple[CachedImage, ...] = ()
    coming: tuple[ComingImage, ...] = ()
    mounted: tuple[MountedImage, ...] = ()
    changes: tuple[VariableChange, ...] = ()
