"""`data` of a submission: sources that the work sees, what is copied out at its end, and the size of its scratch.

Only what can be said of the request alone is judged here; whether a tier or a bucket exists is the server's to say.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from lattice.ports.nodes.data import BUCKET, ID, NODE, DataOrder, StageOutOrder
from lattice.ports.nodes.images import ContainerOrder
from lattice.wire.bounds import Argument, Short
from lattice.wire.text.problems import BadField
from lattice.wire.text.texts import check_argument

MAX_MOUNTS = 16
OUTPUT = "output"  # in the scratch directory: what the work finds as LATTICE_OUTPUT
MAX_PATH = 1024
SCHEMES = ("file", "s3", "nfs")
FILE, NFS = "file://", "nfs://"
DATA_FEATURE = "data"  # of a node that mounts data for runs
STAGE_OUT_FEATURE = "stage_out"  # of a node that copies results out of scratch directories
UPLOAD_FEATURE = "stage_out_s3"  # of one that uploads them to buckets
EXPORT_FEATURE = "data_nfs"  # of one that knows exports
BUCKET_FEATURE = "data_s3"  # of one that mounts buckets
_SCRATCH = re.compile(r"(\$LATTICE_SCRATCH|\$\{LATTICE_SCRATCH\})(/|$)")
# Nothing of the user's may hide what programs of the system trust.
_SYSTEM_NAMES = "bin boot dev etc lib lib32 lib64 libx32 opt proc root run sbin snap srv sys tmp usr var"
SYSTEM = tuple(f"/{name}" for name in _SYSTEM_NAMES.split())
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_UNSAFE = re.compile(r"[^A-Za-z0-9._@-]")  # in a name that becomes part of a path
_WORDS = re.compile(r"\{[^}]*\}")


class DataMount(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`tier_hint`: `hot` = a copy on the hot tier, made before the work starts; `direct` = the source itself.

    Empty: `hot` for s3://, else `direct`.
    """

    source: Argument  # s3://BUCKET/PREFIX, file:///PATH, nfs://EXPORT/PATH or /PATH
    target: Argument  # where the work sees it
    access: Literal["read-only", "read-write", "ro", "rw"] = "read-only"
    tier_hint: Literal["", "hot", "direct"] = ""


class StageOut(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is copied when the work has ended: `source` in its scratch directory to `target`."""

    source: Argument
    target: Argument


class DataRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    mounts: list[DataMount] = []
    stage_out: list[StageOut] = []
    scratch_per_node: Short | int = ""  # as `scratch`
    defaults: bool = True  # home in containers, and /scratch/local/ID
    output: Argument = ""  # where what is left in $LATTICE_OUTPUT goes


NO_DATA = DataRequest()


def read_mounts(wanted: DataRequest) -> tuple[DataOrder, ...]:
    """Raises BadField for the first that cannot be."""
    if len(wanted.mounts) > MAX_MOUNTS:
        raise BadField("data.mounts", "are too many", current=str(len(wanted.mounts)), limit=str(MAX_MOUNTS))
    found = tuple(_mount(each, f"data.mounts[{place}]") for place, each in enumerate(wanted.mounts))
    for place, each in enumerate(found):
        for other in found[:place]:
            if each.target == other.target or each.target.startswith(f"{other.target}/"):
                raise BadField(
                    f"data.mounts[{place}].target",
                    f"{each.target} is hidden by, or hides, the mount of {other.source} at {other.target}",
                    hint="give every mount a target of its own",
                )
            if other.target.startswith(f"{each.target}/"):
                raise BadField(
                    f"data.mounts[{place}].target",
                    f"{each.target} would hide the mount of {other.source} at {other.target}",
                    hint="give every mount a target of its own",
                )
    return found


def read_stage_out(wanted: DataRequest) -> tuple[StageOutOrder, ...]:
    if len(wanted.stage_out) > MAX_MOUNTS:
        raise BadField("data.stage_out", "are too many", current=str(len(wanted.stage_out)), limit=str(MAX_MOUNTS))
    found = [_stage_out(each, f"data.stage_out[{place}]") for place, each in enumerate(wanted.stage_out)]
    if wanted.output:
        output = _stage_out(StageOut(source=OUTPUT, target=wanted.output), "data.output")
        found.append(replace(output, made=True))
    return tuple(found)


def read_output(pattern: str, names: Mapping[str, str]) -> str:
    """The site's place for output, of one submission. Raises BadField."""
    for name, value in names.items():
        pattern = pattern.replace(f"{{{name}}}", _UNSAFE.sub("_", value).strip(".") or "-")
    if left := set(_WORDS.findall(pattern)) - {ID, NODE}:
        raise BadField(
            "data.output", f"{min(left)} is not known", hint=f"{{tenant}}, {{project}}, {{user}}, {ID}, {NODE}"
        )
    return _stage_out(StageOut(source=OUTPUT, target=pattern), "data.output").target


def check_shared_targets(orders: tuple[StageOutOrder, ...], *, is_service: bool, per_node: bool, tasks: bool) -> None:
    """Results of one node or task must not take the place of another's. Raises BadField."""
    for place, each in enumerate(orders):
        field = f"data.stage_out[{place}].target"
        if is_service:
            raise BadField("data.stage_out", "is for work that ends; a service has no results", hint="write to a mount")
        if per_node and NODE not in each.target:
            raise BadField(field, "every node would write to the same place", hint=f"put {NODE} into the target")
        if tasks and ID not in each.target:
            raise BadField(field, "every task would write to the same place", hint=f"put {ID} into the target")


def data_features(mounts: tuple[DataOrder, ...], results: tuple[StageOutOrder, ...]) -> Iterator[str]:
    """What a node needs for mounts and for what leaves it."""
    if mounts:
        yield DATA_FEATURE
    if results:
        yield STAGE_OUT_FEATURE
    if any(out.target.startswith(BUCKET) for out in results):
        yield UPLOAD_FEATURE
    if any(mount.source.startswith(NFS) for mount in mounts):
        yield EXPORT_FEATURE
    if any(mount.source.startswith(BUCKET) and not mount.hot for mount in mounts):
        yield BUCKET_FEATURE


def with_home(container: ContainerOrder | None, wanted: DataRequest) -> ContainerOrder | None:
    """The container as the defaults want it: with the home directory, or without."""
    return container if container is None or wanted.defaults else replace(container, no_home=True)


def _mount(wanted: DataMount, field: str) -> DataOrder:
    source = read_source(wanted.source, f"{field}.source")
    writable = wanted.access in ("read-write", "rw")
    hot = wanted.tier_hint == "hot" or (not wanted.tier_hint and source.startswith("s3://"))
    if hot and writable:
        raise BadField(
            f"{field}.access",
            "a copy on the hot tier is read-only: others use the same one",
            hint="leave out rw, or mount the source itself with direct",
        )
    if writable and source.startswith(BUCKET):
        raise BadField(
            f"{field}.access",
            "a bucket is mounted read-only: what a write cache still has when the work ends would be lost",
            hint="leave out rw, and bring results there with stage_out",
        )
    if hot and source.startswith("nfs://"):
        raise BadField(f"{field}.tier_hint", "an export is mounted, not copied", hint="leave out hot")
    return DataOrder(source=source, target=_target(wanted.target, f"{field}.target"), writable=writable, hot=hot)


def read_source(text: str, field: str) -> str:
    """The one way to write a source. Raises BadField."""
    check_argument(text, field)
    if len(text) > MAX_PATH or not text.isprintable():
        raise BadField(field, "is too long or not printable", limit=f"{MAX_PATH} characters")
    scheme, separator, rest = text.partition("://")
    if not separator:
        if not text.startswith("/"):
            raise BadField(field, f'"{text[:80]}" is no source', hint="s3://BUCKET/PREFIX, file:///PATH or /PATH")
        scheme, rest = "file", text
    if scheme not in SCHEMES:
        raise BadField(field, f'"{scheme[:40]}://" is not a known scheme', hint=f"one of {', '.join(SCHEMES)}")
    parts = rest.split("/")
    if ".." in parts or "." in parts:
        raise BadField(field, f'"{text[:80]}" has . or .. in its path', hint="write the path out")
    if scheme == "file":
        if not rest.startswith("/"):
            raise BadField(field, f'"{text[:80]}" is not an absolute path', hint="file:///PATH")
        path = posixpath.normpath("/" + rest.strip("/"))
        return f"{FILE}{path}"
    place, _, path = rest.partition("/")
    good = _BUCKET if scheme == "s3" else _NAME
    if not good.fullmatch(place):
        what = "bucket" if scheme == "s3" else "export"
        raise BadField(field, f'"{place[:80]}" cannot be the name of a {what}')
    return f"{scheme}://{place}/{'/'.join(part for part in path.split('/') if part)}".rstrip("/")


def _target(text: str, field: str) -> str:
    check_argument(text, field)
    if not text.startswith("/") or len(text) > MAX_PATH or not text.isprintable():
        raise BadField(field, f'"{text[:80]}" is not an absolute path', hint="such as /data/input")
    if ".." in text.split("/"):
        raise BadField(field, f'"{text[:80]}" has .. in its path', hint="write the path out")
    target = posixpath.normpath("/" + text.strip("/"))
    if target in ("/", "/home") or any(target == place or target.startswith(f"{place}/") for place in SYSTEM):
        raise BadField(
            field, f"{target[:80]} belongs to the system", hint="such as /data/input, or a path in your home"
        )
    return target


def _stage_out(wanted: StageOut, field: str) -> StageOutOrder:
    source = _SCRATCH.sub("", wanted.source, count=1) or "."
    check_argument(source, f"{field}.source")
    if not wanted.source or source.startswith("/") or ".." in source.split("/") or len(source) > MAX_PATH:
        raise BadField(
            f"{field}.source",
            f'"{wanted.source[:80]}" is not a path in the scratch directory',
            hint="relative to $LATTICE_SCRATCH, such as results",
        )
    target = read_source(wanted.target, f"{field}.target")
    if not target.startswith((FILE, BUCKET)):
        raise BadField(
            f"{field}.target", "results go to directories and buckets", hint="file:///PATH, /PATH or s3://BUCKET/PREFIX"
        )
    return StageOutOrder(source=posixpath.normpath(source), target=target)
