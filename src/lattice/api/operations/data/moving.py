"""What movers ask and say."""

from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.core.machine.commands import ReportCopy
from lattice.core.model.data.copies import MAX_READERS
from lattice.ports.data.staging import Progress, StagingService
from lattice.wire.data.moving import (
    MAX_PROGRESS,
    MAX_REPORTS,
    CopyReport,
    CopyTask,
    MoverAsk,
    MoverReports,
    MoverTasks,
    OldGeneration,
    ReportAnswer,
    ReportAnswers,
)
from lattice.wire.text.problems import BadField
from lattice.wire.text.texts import check_line, check_name

MAX_SLOTS = 64
MAX_REASON = 2_000
MAX_BYTES = 1 << 60


async def ask_for_data_work(context: Context, request: MoverAsk) -> MoverTasks:
    """Tell that a mover is alive and how far it is, and take on further copies."""
    mover = check_name(request.mover, "mover")
    if not 0 <= request.slots <= MAX_SLOTS or len(request.progress) > MAX_PROGRESS:
        raise BadField("slots", "asks for too much", limit=f"{MAX_SLOTS} copies, {MAX_PROGRESS} under way")
    work = await staging_of(context).work_for(
        mover,
        slots=request.slots,
        wait_s=request.wait_s,
        progress=[
            (
                each.key,
                each.generation,
                Progress(
                    bytes_done=_bytes(each.bytes_done),
                    bytes_total=_bytes(each.bytes_total),
                    bytes_per_s=min(max(0.0, each.bytes_per_s), float(MAX_BYTES)),
                ),
            )
            for each in request.progress
        ],
        space=(_bytes(request.hot_total), _bytes(request.hot_free)),
    )
    return MoverTasks(
        tasks=tuple(
            CopyTask(
                key=copy.key,
                source=copy.source,
                generation=copy.next_generation,
                present=copy.generation,
                version=copy.version,
                tries=copy.tries,
                accounts=accounts,
            )
            for copy, accounts in work.claimed
        ),
        remove=tuple(OldGeneration(key=key, generation=generation) for key, generation in work.remove),
        stop=work.stop,
        bytes_per_s=work.bytes_per_s,
    )


async def report_data_work(context: Context, request: MoverReports) -> ReportAnswers:
    """Tell what became of copies that a mover took on."""
    mover = check_name(request.mover, "mover")
    if len(request.reports) > MAX_REPORTS:
        raise BadField("reports", "are too many", limit=str(MAX_REPORTS))
    service = staging_of(context)
    answers = []
    for each in request.reports:
        refused = await service.reported(_command(mover, each))
        answers.append(ReportAnswer(key=each.key, go_on=refused is None, reason=refused or ""))
    return ReportAnswers(answers=tuple(answers))


def staging_of(context: Context) -> StagingService:
    if context.services.staging is None:
        raise ApiError("unavailable", "this server does not lead, and cannot answer that")
    return context.services.staging


def _command(mover: str, said: CopyReport) -> ReportCopy:
    if len(said.readers) > MAX_READERS or len(said.denied) > MAX_READERS:
        raise BadField("readers", "are too many", limit=str(MAX_READERS))
    return ReportCopy(
        key=check_line(said.key, "key", 64),
        mover=mover,
        generation=said.generation,
        phase=said.phase,
        size=_bytes(said.size),
        files=_bytes(said.files),
        version=check_line(said.version, "version", 128),
        reason=" ".join(said.reason.split())[:MAX_REASON],
        readers=tuple(check_line(name, "readers", 128) for name in said.readers),
        denied=tuple(
            (check_line(name, "denied", 128), " ".join(why.split())[:MAX_REASON]) for name, why in said.denied.items()
        ),
    )


def _bytes(value: int) -> int:
    return min(max(0, value), MAX_BYTES)
