"""`lattice wait`: until allocations have ended; how they ended is the exit code."""

import argparse
from dataclasses import dataclass

from lattice.cli import progress
from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.each import for_each, is_dag
from lattice.cli.ending import dag_ending_code, dag_ending_text, ending_code, ending_text
from lattice.cli.output import structured
from lattice.cli.times import parse_duration_s
from lattice_sdk.models.dags import Dag
from lattice_sdk.models.records import Allocation


@dataclass(frozen=True, kw_only=True)
class Options:
    ids: tuple[str, ...] = ()
    timeout: float | None = None


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="+", metavar="ID", help="allocation, task, task group or DAG")
    parser.add_argument(
        "--timeout",
        type=parse_duration_s,
        metavar="S",
        help="give up after S seconds (or 5m, 2h) with exit code 124",
    )


def run(options: Options, context: Context) -> int:
    deadline = None if options.timeout is None else context.clock.now() + options.timeout

    def await_end(name: str) -> tuple[Allocation | Dag, int]:
        left = None if deadline is None else max(0.0, deadline - context.clock.now())
        ended = (
            context.client.wait_dag(name, timeout=left)
            if is_dag(name)
            else progress.await_end(name, context, timeout=left)
        )
        told, code = (
            (dag_ending_text(ended), dag_ending_code(ended))
            if isinstance(ended, Dag)
            else (ending_text(ended), ending_code(ended))
        )
        if context.output in {"table", "wide"}:
            context.say(told)
            context.streams.stdout.flush()
        return ended, code

    ended, code = for_each(options.ids, await_end, context)
    records = [record for record, _ in ended]
    if context.output not in {"table", "wide"} and records:
        structured(context, records[0] if len(options.ids) == 1 else records)
    return max([code, *(end for _, end in ended)])


COMMAND = Command(
    options=Options,
    fill=fill,
    run=run,
    examples=("lattice wait a17", "lattice wait a17 a18 --timeout=2h", "lattice wait d21"),
)
