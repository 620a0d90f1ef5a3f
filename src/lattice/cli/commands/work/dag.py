"""`lattice dag`: allocations that are submitted together and wait for one another."""

import argparse
import os
from dataclasses import dataclass
from typing import Any

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.each import order_each
from lattice.cli.errors import OK, CommandError, UsageError
from lattice.cli.output import Column, show_list, structured
from lattice.cli.times import stamp_text
from lattice_sdk.dags import parse_dag
from lattice_sdk.errors import Invalid
from lattice_sdk.models.dags import Dag, DagMember

STDIN = "-"


@dataclass(frozen=True, kw_only=True)
class Options:
    words: tuple[str, ...] = ()
    graph: bool = False
    state: str = ""
    all: bool = False
    request_id: str = ""


def fill_submit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="FILE", help="DAG in YAML or JSON; - reads stdin")
    parser.add_argument(
        "--request-id", metavar="ID", help="idempotency key: submitting again with the same ID has no effect"
    )


def fill_status(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="ID", help="id of the DAG, e.g. d17")
    parser.add_argument("--graph", action="store_true", help="draw the dependency graph")


def fill_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state", metavar="STATE", help="show only DAGs in this state: Running, Completed, Failed or Cancelled"
    )
    parser.add_argument("--all", action="store_true", help="show the DAGs of all users")


def fill_cancel(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="ID", help="ids of DAGs")


def run_submit(options: Options, context: Context) -> int:
    document = _document(_one(options.words, "a file with the DAG"), context)
    document.setdefault("tenant", context.settings.tenant)
    document.setdefault("project", context.settings.project)
    document.setdefault("vcluster", context.settings.vcluster)
    document.setdefault("cwd", context.process.directory())
    dag = context.client.submit_dag(document, request_id=options.request_id)
    for text in dag.warnings:
        context.warn(text)
    if not structured(context, dag):
        told = dag.id if context.flags.quiet else f"Submitted DAG {dag.id} with {dag.counts.size} allocations"
        context.streams.write(f"{told}\n")
    return OK


def _document(path: str, context: Context) -> dict[str, Any]:
    try:
        return parse_dag(_text(path, context))
    except Invalid as error:
        error.args = (f"{'stdin' if path == STDIN else path}: {error}",)
        raise


def _text(path: str, context: Context) -> str:
    try:
        if path == STDIN:
            return context.streams.stdin.read().decode()
        with open(os.path.join(context.process.directory(), path), encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise CommandError(f"cannot read {path}: {reason}") from None


def run_status(options: Options, context: Context) -> int:
    dag_id = _one(options.words, "the id of a DAG")
    if options.graph:
        graph = context.client.get_dag_graph(dag_id)
        if not structured(context, graph):
            context.streams.write(graph.text)
        return OK
    dag = context.client.get_dag(dag_id)
    if structured(context, dag):
        return OK
    counts = dag.counts
    context.streams.write(
        f"DAG {dag.id} {dag.name}: {dag.state}\n"
        f"{counts.size} allocations: {counts.pending} pending, {counts.running} running, {counts.completed} completed, "
        f"{counts.failed} failed, {counts.cancelled} cancelled\n\n"
    )
    show_list(context, dag.allocations, MEMBER_COLUMNS, name=lambda member: member.ref)
    return OK


def run_list(options: Options, context: Context) -> int:
    user = "" if options.all else context.client.whoami().user
    show_list(context, context.client.list_dags(user=user, state=options.state), COLUMNS, name=lambda dag: dag.id)
    return OK


def run_cancel(options: Options, context: Context) -> int:
    if not options.words:
        raise UsageError("name the DAGs to cancel", hint="lattice dag cancel d17")
    return order_each(
        options.words, lambda dag_id: context.client.cancel_dag(dag_id), lambda dag: f"Cancelled DAG {dag.id}", context
    )


def _one(words: tuple[str, ...], what: str) -> str:
    if len(words) != 1:
        raise UsageError(f"give {what}" if not words else f"give {what}, and one only")
    return words[0]


MEMBER_COLUMNS: tuple[Column[DagMember], ...] = (
    Column("NAME", lambda m: m.ref),
    Column("ALLOCATION", lambda m: m.id),
    Column("STATE", lambda m: m.state),
    Column("EXIT", lambda m: "" if m.exit_code is None else str(m.exit_code), is_sparse=True),
    Column("DEPENDS_ON", lambda m: m.depends_on, is_sparse=True),
    Column("REASON", lambda m: m.reason or m.message, is_sparse=True),
    Column("NODES", lambda m: ",".join(m.nodes), is_wide=True),
    Column("STARTED", lambda m: stamp_text(m.started_at), is_wide=True),
    Column("ENDED", lambda m: stamp_text(m.completed_at), is_wide=True),
)
COLUMNS: tuple[Column[Dag], ...] = (
    Column("DAG", lambda d: d.id),
    Column("NAME", lambda d: d.name),
    Column("STATE", lambda d: d.state),
    Column("USER", lambda d: d.user),
    Column("SIZE", lambda d: str(d.counts.size)),
    Column("PENDING", lambda d: str(d.counts.pending)),
    Column("RUNNING", lambda d: str(d.counts.running)),
    Column("COMPLETED", lambda d: str(d.counts.completed)),
    Column("FAILED", lambda d: str(d.counts.failed)),
    Column("CANCELLED", lambda d: str(d.counts.cancelled)),
    Column("SUBMITTED", lambda d: stamp_text(d.submitted_at), is_wide=True),
    Column("ENDED", lambda d: stamp_text(d.completed_at), is_wide=True),
    Column("TENANT", lambda d: d.tenant, is_wide=True),
)

SUBMIT = Command(
    options=Options,
    has_vcluster=True,
    fill=fill_submit,
    run=run_submit,
    examples=("lattice dag submit workflow.yaml", "lattice dag submit -q - < workflow.yaml"),
)
STATUS = Command(
    options=Options,
    fill=fill_status,
    run=run_status,
    examples=("lattice dag status d17", "lattice dag status d17 --graph", "lattice dag status d17 -o json"),
)
LIST = Command(
    lists=True,
    options=Options,
    fill=fill_list,
    run=run_list,
    examples=("lattice dag list", "lattice dag list --state=Failed --all"),
)
CANCEL = Command(options=Options, fill=fill_cancel, run=run_cancel, examples=("lattice dag cancel d17",))
