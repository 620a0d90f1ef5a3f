"""`lattice run`: submit, show the output as it is written, and exit with the exit code of the work."""

import argparse
from contextlib import suppress

from lattice.cli.command import Command
from lattice.cli.commands.work import submit
from lattice.cli.context import Context
from lattice.cli.ending import ending_code
from lattice.cli.errors import INTERRUPTED, UsageError
from lattice.cli.following import Follower, write_output
from lattice.cli.input.submission import SubmitOptions
from lattice.cli.progress import FIRST_LOOK_S, LOOK_AGAIN_S, WAITING, StatusLine, waiting_text
from lattice.cli.recent import remember
from lattice_sdk.errors import LatticeError, WaitTimedOut
from lattice_sdk.models.records import Allocation, LogChunk

REMEMBERED_BYTES = 4096
QUESTION = "detach (d), cancel (c) or continue (Enter)? Ctrl-C again cancels. "


def fill(parser: argparse.ArgumentParser) -> None:
    submit.fill(parser)
    parser.usage = "lattice run [flags] -- COMMAND [ARG...]\n       lattice run [flags] SCRIPT [ARG...]"


def run(options: SubmitOptions, context: Context) -> int:
    _refuse(options, context)
    allocation = submit.submitted(options, context)
    if allocation is None:
        return INTERRUPTED
    remember(context, allocations=[allocation.id])
    return _AttachedRun(context, allocation).attend()


def _refuse(options: SubmitOptions, context: Context) -> None:
    given = {"--wait": options.wait, "--dry-run": options.dry_run, "--task-group": bool(options.task_group)}
    for flag, is_given in given.items():
        if is_given:
            raise UsageError(f"{flag} cannot be used with `lattice run`", hint=f"use `lattice submit {flag}`")
    if context.output in {"json", "yaml"}:
        raise UsageError(
            "`lattice run` prints the output of the work", hint=f"use `lattice submit -o {context.output}`"
        )


class _AttachedRun:
    """One allocation and the terminal that watches it."""

    def __init__(self, context: Context, allocation: Allocation) -> None:
        self._context = context
        self._id = allocation.id
        self._line = StatusLine(context)
        self._said = b""  # the end of stderr
        self._follower = Follower(context, allocation.id, self._show)

    def attend(self) -> int:
        self._follower.start()
        while True:
            try:
                with self._line:
                    ended = self._await_end()
                    self._follower.finish()
                break
            except KeyboardInterrupt:
                if self._wants_to_leave():
                    self._context.note(
                        f"{self._id} keeps running; `lattice logs -f {self._id}` shows its output, "
                        f"`lattice cancel {self._id}` ends it"
                    )
                    return INTERRUPTED
        if ended.ending and ended.ending.encode() not in self._said:
            self._context.streams.complain(f"lattice: {ended.ending}\n")
        return ending_code(ended)

    def _show(self, chunk: LogChunk) -> None:
        self._line.clear()
        if chunk.stream == "stderr":
            self._said = (self._said + chunk.data)[-REMEMBERED_BYTES:]
        write_output(self._context, chunk.stream, chunk.data)

    def _await_end(self) -> Allocation:
        """Until it has ended; while it is pending the terminal says why, and when it will start."""
        pause_s = FIRST_LOOK_S
        while True:
            with suppress(WaitTimedOut):
                return self._context.client.wait(self._id, timeout=pause_s if self._line.is_shown else None)
            pause_s = LOOK_AGAIN_S
            now = self._context.client.get_allocation(self._id)
            if now.state in WAITING:
                self._line.show(waiting_text(now, self._context))
            else:
                self._line.clear()

    def _wants_to_leave(self) -> bool:
        """What an interrupt means: asked where somebody can answer, else the end of the work."""
        answer, streams = "c", self._context.streams
        try:  # a second interrupt may come before the question is asked
            self._line.clear()
            if streams.stdin.isatty() and streams.stderr.isatty():
                streams.complain(f"\n{self._id}: {QUESTION}")
                answer = streams.stdin.readline().decode("utf-8", "replace").strip().lower()
        except KeyboardInterrupt:
            answer = "c"
            streams.complain("\n")
        self._context.renew()
        if answer.startswith("d"):
            return True
        if answer.startswith("c"):
            with suppress(LatticeError):  # it has ended meanwhile
                self._context.client.cancel(self._id)
            self._context.note(f"{self._id} is being cancelled")
        return False


COMMAND = Command(
    options=SubmitOptions,
    has_vcluster=True,
    fill=fill,
    run=run,
    complete=submit.complete,
    takes_tail=True,
    takes_rest=True,
    examples=(
        "lattice run -- hostname",
        "lattice run --nodes=2 --walltime=10m -- python3 train.py",
        "lattice run --gpus=1 train.sh",
    ),
)
