"""`lattice admin vcluster set-weights`: the weight of each score factor in one vCluster."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field

from lattice.cli.command import Command, Values
from lattice.cli.commands.admin.vcluster import weights_text
from lattice.cli.context import Context, Process
from lattice.cli.errors import OK, UsageError
from lattice.cli.input.fields import chosen_name, finite
from lattice.cli.output import structured
from lattice_sdk.factors import FACTORS, PROFILES


@dataclass(frozen=True, kw_only=True)
class Options:
    names: tuple[str, ...] = ()
    name: str = ""
    profile: str | None = None
    reset: bool = False
    weights: Mapping[str, float] = field(default_factory=dict)  # those given, by factor


def weight(text: str) -> float:
    try:
        return finite(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'a weight is a number of at least 0, not "{text}"') from None


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="name of the vCluster")
    parser.add_argument("--name", metavar="NAME", help="same as the positional NAME")
    parser.add_argument(
        "--profile",
        metavar="PROFILE",
        help=f"base profile: {', '.join(PROFILES)}; none = that of the scheduler",
    )
    parser.add_argument("--reset", action="store_true", help="clear all weights, then set the given ones")
    group = parser.add_argument_group("weights (at least 0; weights not given are unchanged)")
    for factor, meaning in FACTORS.items():
        group.add_argument(f"--{factor.replace('_', '-')}", type=weight, metavar="W", help=meaning)


def gather(values: Values, parser: argparse.ArgumentParser, process: Process) -> Values:
    """The flags of the factors as one table."""
    given = {factor: values[factor] for factor in FACTORS if values.get(factor) is not None}
    return {**values, "weights": given}


def run(options: Options, context: Context) -> int:
    name = chosen_name(options.names, options.name, "vCluster")
    given = options.weights
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
    complete=gather,
    run=run,
    examples=(
        "lattice admin vcluster set-weights --name=hpc-batch --priority=0.20 --wait-time=0.25 --fair-share=0.25",
        "lattice admin vcluster set-weights --name=hpc-batch --reset --profile=responsive",
    ),
)
