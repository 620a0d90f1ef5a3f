"""The script of a job as it was submitted: `scontrol write batch_script` and `sacct --batch-script`."""

from lattice.api.auditing import record_access
from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.lookup import find, payload_of
from lattice.api.slurm.answering import complained
from lattice.api.slurm.commands.scontrol_verbs import DENIED, UNKNOWN, in_slurms_words, our_id
from lattice.slurm.listings.listing import ListingLine
from lattice.wire.slurm.commands import SlurmAnswer, SlurmCommand
from lattice.wire.text.problems import BadField
from lattice.wire.work.payloads import decode_work

_RULE = "-" * 80
TO_STDOUT = "-"


async def write(context: Context, command: SlurmCommand, line: ListingLine) -> SlurmAnswer:
    """`scontrol write batch_script N -`. Files are the caller's: a server cannot write them."""
    keyword, *words = (word.lower() if at == 0 else word for at, word in enumerate(line.words or [""]))
    if keyword != "batch_script":
        return complained(f"invalid entity:{keyword} for keyword:write")
    if not words:
        return complained("too few arguments for keyword:write")
    if len(words) != 2 or words[1] != TO_STDOUT:
        return complained(
            f"scontrol: error: files are not written; use `scontrol write batch_script {words[0]} - > slurm-{words[0]}.sh`"
        )
    script, why = await script_of(context, words[0])
    return complained(f"job script retrieval failed: {why}") if why else SlurmAnswer(stdout=script)


async def scripts(context: Context, names: list[str]) -> SlurmAnswer:
    """What `sacct -B -j N` prints: each script under its job; NONE for work without one."""
    pages = []
    for name in names:
        script, why = await script_of(context, name)
        if why == DENIED:
            return complained(f"sacct: error: {why}")
        if not why:
            pages.append(f"Batch Script for {name}\n{_RULE}\n{script or 'NONE'}\n")
    return SlurmAnswer(stdout="".join(pages))


async def script_of(context: Context, name: str) -> tuple[str, str]:
    """The script, or why there is none to see."""
    try:
        found = await find(context, our_id(name))
    except BadField:
        return "", UNKNOWN
    except ApiError as problem:
        return "", in_slurms_words(problem)
    head = found.head
    if not context.covers(Permission.READ_DETAILS, user=head.user, tenant=head.tenant):
        return "", DENIED
    await record_access(context, "allocation.details", head)
    payload = await payload_of(context, found)
    return (decode_work(payload).script if payload else ""), ""
