"""Opens the output of a run for a server that asked for it."""

from collections.abc import Callable

from lattice.agent.machine.state import Run
from lattice.agent.runs.folders import RunFolders
from lattice.agent.runs.output import Readers, Reading
from lattice.ports.nodes.agents import Phase, RunKey
from lattice.wire.agents.messages import RUN_KEY
from lattice.wire.pb import agent_pb2 as pb


def open_reading(
    asked: pb.ReadOutput, readers: Readers, folders: RunFolders, find: Callable[[RunKey], Run | None]
) -> None:
    """Follows the file until the run has ended; a run that is not known here is refused."""
    key = RUN_KEY.read(asked.key)
    if find(key) is None:
        readers.refuse(asked.reader, f"run {key} is not known on this node")
        return

    def has_ended() -> bool:
        run = find(key)
        return run is None or run.phase is Phase.ENDED

    name = "stderr" if asked.stream == pb.OUTPUT_STREAM_STDERR else "stdout"
    reading = Reading(
        reader=asked.reader,
        path=folders.path(key) / name,
        offset=max(0, asked.offset),
        tail_lines=asked.tail_lines,
        follow=asked.follow,
    )
    readers.open(reading, has_ended)
