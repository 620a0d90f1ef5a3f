"""What belongs to single runs of an allocation: the images that they mount, and what they used."""

from msgspec import Struct


class ImageInfo(Struct, frozen=True, kw_only=True):
    """An image of an allocation: always the bytes with this sha256."""

    reference: str
    digest: str
    mount: str = ""  # empty = where the image itself wants to be


class RunUsage(Struct, frozen=True, kw_only=True):
    """What a run or a step used beyond CPU time and memory; 0 also where a node does not measure it."""

    throttled_s: float = 0  # waited because its share of the CPUs was used up
    read_bytes: int = 0  # from storage, on all nodes
    written_bytes: int = 0
    peak_pids: int = 0  # processes and threads at the same time, on the node that had most
