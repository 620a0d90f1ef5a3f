"""`lattice admin project`: projects of a tenant."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK
from lattice.cli.input.fields import INTEGER, Field, add_fields, chosen_name, given_fields
from lattice.cli.output import Column, show_list, structured
from lattice.cli.times import stamp_text
from lattice_sdk.models.records import Project

FIELDS = (Field("max_nodes", INTEGER, "maximum nodes in use"),)


@dataclass(frozen=True, kw_only=True)
class Options:
    names: tuple[str, ...] = ()
    name: str = ""
    max_nodes: str | None = None


COLUMNS: tuple[Column[Project], ...] = (
    Column("TENANT", lambda p: p.tenant),
    Column("PROJECT", lambda p: p.name),
    Column("MAX_NODES", lambda p: "-" if p.max_nodes is None else str(p.max_nodes)),
    Column("CREATED", lambda p: stamp_text(p.created_at), is_wide=True),
)


def fill(parser: argparse.ArgumentParser) -> None:
    add_fields(parser, "project", FIELDS)


def _tenant(context: Context) -> str:
    """The tenant given, or else the user's own."""
    return context.settings.tenant or context.client.whoami().tenant or ""


def run_create(options: Options, context: Context) -> int:
    name = chosen_name(options.names, options.name, "project")
    fields = {"tenant": _tenant(context), "name": name, **given_fields(options, FIELDS)}
    project = context.client.create_project(fields)
    if not structured(context, project):
        context.say(f"Created project {project.name} of tenant {project.tenant}")
    return OK


def run_update(options: Options, context: Context) -> int:
    name = chosen_name(options.names, options.name, "project")
    changes = given_fields(options, FIELDS, is_change=True)
    project = context.client.update_project(_tenant(context), name, changes)
    if not structured(context, project):
        context.say(f"Updated project {project.name} of tenant {project.tenant}")
    return OK


def run_list(_options: Options, context: Context) -> int:
    found = context.client.list_projects()
    if context.flags.tenant:
        found = [project for project in found if project.tenant == context.flags.tenant]
    show_list(context, found, COLUMNS, name=lambda project: project.name)
    return OK


CREATE = Command(
    options=Options,
    fill=fill,
    run=run_create,
    examples=("lattice admin project create --tenant=physics --name=lhc --max-nodes=20",),
)
UPDATE = Command(
    options=Options,
    fill=fill,
    run=run_update,
    examples=("lattice admin project update lhc --tenant=physics --max-nodes=none",),
)
LIST = Command(lists=True, options=Options, run=run_list, examples=("lattice admin project list",))
