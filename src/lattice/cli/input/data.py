"""`--data-mount` and `--stage-out` as people write them."""

import re

from lattice.cli.errors import UsageError
from lattice_sdk.data.models import DataMount, StageOut

_ACCESS = {"ro": "read-only", "rw": "read-write"}
_TIERS = ("hot", "direct")
_STAGE_OUT = re.compile(r"(.+?):((?:[a-z][a-z0-9]*://|/(?!/)).*)", re.DOTALL)
STAGE_OUT_HINT = "SRC:DEST, as in results:file:///capacity/results/{id}"
HINT = "SRC:TARGET[:ro|rw][:hot|direct], as in s3://bucket/set:/data/set:ro:hot"


def parse_mount(text: str) -> DataMount:
    """Words at the end first: a source has colons of its own."""
    rest, access, tier = text, "", ""
    while True:
        before, colon, word = rest.rpartition(":")
        if colon and word in _ACCESS and not access:
            rest, access = before, word
        elif colon and word in _TIERS and not tier:
            rest, tier = before, word
        else:
            break
    source, colon, target = rest.rpartition(":")
    if not colon or not source or not target.startswith("/") or target.startswith("//"):
        raise UsageError(f'--data-mount takes SRC:TARGET, not "{text}"', hint=HINT)
    return DataMount(source=source, target=target, access=_ACCESS.get(access, "read-only"), tier_hint=tier)


def parse_stage_out(text: str) -> StageOut:
    """At the first colon before a path or a scheme: names of files may have colons."""
    found = _STAGE_OUT.fullmatch(text)
    if found is None:
        raise UsageError(f'--stage-out takes SRC:DEST, not "{text}"', hint=STAGE_OUT_HINT)
    return StageOut(source=found[1], target=found[2])
