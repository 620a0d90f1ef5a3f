"""`lattice admin vcluster set-weights`: the weight of each score factor in one vCluster."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.commands.admin.vcluster import weights_text
from lattice.cli.context import Context
from lattice.cli.errors import OK, UsageError
from lattice.cli.input.fields import chosen_name
from lattice.cli.output import structured

FACTORS = {
    "priority": "the preemption class",
    "wait_time": "time spent waiting",
    "fair_share": "distance of the tenant below its share",
    "topology": "number of topology groups needed (fewer is better)",
    "data_readiness": "fraction of its data that is staged",
    "backlog": "ratio of queued to running work",
    "energy": "current price of energy (cheaper is better)",
    "checkpoint": "cost of a checkpoint (cheaper is better)",
    "conformance": "number of identical nodes",
    "expansion": "time spent waiting relative to walltime",
}


@dataclass(frozen=True, kw_only=True)
class Options:
    names: tuple[str, ...] = ()
    name: str = ""
    profile: str | None = None
    reset: bool = False
    priority: float | None = None
    wait_time: float | None = None
    fair_share: float | None = None
    topology: float | None = None
    data_readiness: float | None = None
    backlog: float | None = None
    energy: float | None = None
    checkpoint: float | None = None
    conformance: float | None = None
    expansion: float | None = None


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="name of the vCluster")
    parser.add_argument("--name", metavar="NAME", help="same as the positional NAME")
    parser.add_argument(
        "--profile",
        metavar="PROFILE",
        help="base profile: hpc, ml, service, sensitive, interactive, responsive; none = that of the scheduler",
    )
    parser.add_argument("--reset", action="store_true", help="clear all weights, then set the given ones")
    weights = parser.add_argument_group("weights (at least 0; weights not given are unchanged)")
    for factor, meaning in FACTORS.items():
        weights.add_argument(f"--{factor.replace('_', '-')}", type=float, metavar="W", help=meaning)


def run(options: Options, context: Context) -> int:
    name = chosen_name(options.names, options.name, "vCluster")
    given = {factor: getattr(options, factor) for factor in FACTORS if getattr(options, factor) is not None}
    changes: dict[str, object] = {}
    if options.profile is not None:
        changes["profile"] = "" if options.profile == "none" else options.profile
    if options.reset and given:
        changes["weights"] = {factor: given.get(factor) for factor in FACTORS}
    elif options.reset:
        changes["weights"] = None
    elif given:
        changes["weights"] = given
    if not changes:
        raise UsageError("nothing to change", hint="use --priority=0.2, --profile=responsive, --reset, ...")
    vcluster = context.client.update_vcluster(name, changes)
    if not structured(context, vcluster):
        profile = f", profile {vcluster.profile}" if vcluster.profile else ""
        context.say(f"Weights of vCluster {vcluster.name}{profile}: {weights_text(vcluster) or 'those of the profile'}")
    return OK


SET = Command(
    options=Options,
    fill=fill,
    run=run,
    examples=(
        "lattice admin vcluster set-weights --name=hpc-batch --priority=0.20 --wait-time=0.25 --fair-share=0.25",
        "lattice admin vcluster set-weights --name=hpc-batch --reset --profile=responsive",
    ),
)
