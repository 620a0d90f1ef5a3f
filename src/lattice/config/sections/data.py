"""Data of work: the tiers and exports that it comes from, and where copies are made of it."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from lattice.config.sections.values import Limit, Name, Period


class HotTierSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where copies are that work reads: a file system that movers and nodes share."""

    directory: str = ""  # directory of the hot tier, under the same path for movers and nodes; empty = there is none
    size: Limit = 0  # bytes that all copies together may have; 0 = what its file system has
    # bytes per second that it can write, of which the setting staging.bandwidth is for staging; 0 = no limit
    bandwidth: Limit = 0
    tenants: dict[str, Limit] = {}  # most bytes that copies of a tenant may have; tenants not named here have no limit
    high: Annotated[float, Meta(gt=0, le=1)] = 0.9  # part of the size above which nothing is added
    low: Annotated[float, Meta(ge=0, le=1)] = 0.7  # part down to which copies leave that were not used for longest


class WarmTierSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A directory or a bucket from which users may take data."""

    url: Annotated[str, Meta(pattern=r"^(file:///.+|s3://[a-z0-9][a-z0-9.-]+[a-z0-9])$")]  # file:///PATH or s3://BUCKET
    tenants: list[Name] = []  # tenants that may use it; empty = all
    endpoint: str = ""  # address of the S3 service; empty = Amazon's
    region: str = "us-east-1"  # region of the bucket
    key_id: str = ""  # name of the access key: the name itself or a reference; read by movers alone
    key_secret: str = ""  # its secret, as a reference; read by movers alone
    ca_file: str = ""  # PEM file with authorities of the service, besides those of the system
    timeout: Period = 60.0  # longest time of one request
    # whether results (--stage-out) may go to this bucket; in a directory the rights of the user decide
    writable: bool = False


class ColdTierSection(WarmTierSection, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An archive: what is in it is restored before it is copied to the hot tier."""

    # program that brings PATH, added as its last argument, back to a file:// archive: exit code 0 = it is there, 75 = ask again
    recall: list[str] = []
    restore_days: Annotated[int, Meta(ge=1, le=365)] = 7  # days that objects stay restored
    restore_speed: Literal["Bulk", "Standard", "Expedited"] = "Standard"  # how fast objects are restored


class DataTiersSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    hot: HotTierSection = HotTierSection()
    warm: list[WarmTierSection] = []  # places from which data may be taken
    cold: list[ColdTierSection] = []  # archives: data is restored before it is copied


class ExportSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An NFS export: a node that has it as `directory` binds it, another one mounts it for the run."""

    name: Name  # NAME in nfs://NAME/path
    tenants: list[Name] = []  # tenants that may use it; empty = all
    directory: str = ""  # where nodes have it mounted
    # HOST:/PATH, as mount.nfs takes it, for nodes that do not have it; empty = they refuse the work
    address: Annotated[str, Meta(pattern=r"^([A-Za-z0-9\[][^\s,]*:/\S*)?$")] = ""
    # options of that mount, beside nosuid and nodev
    options: Annotated[str, Meta(pattern=r"^[A-Za-z0-9=,._:/-]*$")] = ""


class DataSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Data of work (`--data-mount`): where it may come from, and where copies are made of it."""

    tiers: DataTiersSection = DataTiersSection()
    exports: list[ExportSection] = []  # what users name as nfs://NAME/path
    # directories below which users may have data mounted; nodes have --data-targets
    targets: list[str] = field(default_factory=lambda: ["/data", "/datasets", "/input", "/mnt", "/workspace"])
    mover_timeout: Period = 15.0  # a mover that is silent for this long has lost its copies to others
    # where what work leaves in $LATTICE_OUTPUT goes unless it says so itself, such as s3://results/{tenant}/{project}/{id}; {id} is needed,
    # {user} and {node} are known too, nodes need a scratch directory; empty = nowhere
    output: Annotated[str, Meta(pattern=r"^((file://|s3://)[^\s]*\{id\}[^\s]*)?$")] = ""
