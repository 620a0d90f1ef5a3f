"""What orders say about the data of a run."""

from msgspec import Struct

ID, NODE = "{id}", "{node}"  # in targets of results: replaced by the allocation and its node
BUCKET = "s3://"


class DataOrder(Struct, frozen=True, kw_only=True, gc=False):
    """One source that a run sees at a path of its own."""

    source: str
    target: str
    writable: bool = False
    hot: bool = False  # a copy on the hot tier is wanted, not the source itself
    folder: str = ""  # of that copy, relative to the hot tier; empty = there is none
    reason: str = ""  # why there is none


class StageOutOrder(Struct, frozen=True, kw_only=True, gc=False):
    """What a run leaves in its scratch directory and is copied elsewhere before that goes."""

    source: str  # relative to the scratch directory
    target: str
    grant: str = ""  # lets the node upload what lies below a target in a bucket, by requests that servers sign
    made: bool = False  # the node makes the directory, which the work knows as LATTICE_OUTPUT
