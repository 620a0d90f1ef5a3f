"""How a service and its instances look in the sheet of its allocation."""

from msgspec import UNSET

from lattice.cli.input.probes import probe_text
from lattice_sdk.models.records import Allocation, Details
from lattice_sdk.models.runs import Instance, Scaling

SHOWN = 32  # instances


def service_pairs(allocation: Allocation) -> list[tuple[str, str]]:
    """How many are ready and why not all, then one line for each instance."""
    service = allocation.service
    if service is UNSET:
        return []
    restarts = f"{service.restarts} restarts" if service.restarts != 1 else "1 restart"
    head = f"{service.ready}/{service.wanted}, {restarts}, restart={service.restart}"
    pairs = [("Ready", f"{head}: {service.reason}" if service.reason else head)]
    if service.scaling is not None:
        pairs.append(("Scaling", scaling_text(service.scaling)))
    pairs += [(f"  {each.node}", instance_text(each)) for each in service.instances[:SHOWN]]
    more = len(service.instances) - SHOWN
    return [*pairs, ("  ...", f"{more} more")] if more > 0 else pairs


def instance_text(instance: Instance) -> str:
    """Its phase, why it is not ready, and how the attempt before ended."""
    phase = "ready" if instance.ready else instance.phase
    words = [phase if not instance.reason else f"{phase}: {instance.reason}"]
    if instance.restarts:
        words.append(f"{instance.restarts} restarts" if instance.restarts > 1 else "1 restart")
    if instance.last_cause:
        words.append(f"last ended by {last_text(instance)}")
    return ", ".join(words)


def last_text(instance: Instance) -> str:
    """How the attempt before ended."""
    if instance.last_signal:
        return f"signal {instance.last_signal}"
    if instance.last_cause == "exit":
        return f"exit code {instance.last_exit_code}"
    return f"{instance.last_cause}: {instance.last_message}" if instance.last_message else instance.last_cause or ""


def probe_pairs(details: Details) -> list[tuple[str, str]]:
    """The probes that were asked for, and how a stop waits."""
    pairs = [(f"{each.kind.capitalize()} probe", probe_text(each)) for each in details.probes]
    return [*pairs, ("Drain", f"{details.drain_s:g} s")] if details.drain_s else pairs


def scaling_text(scaling: Scaling) -> str:
    """The policy, and what was decided last and why."""
    policy = f"{scaling.min_nodes} to {scaling.max_nodes} nodes by {scaling.metric}, target {scaling.target:g}"
    if not scaling.decision:
        return f"{policy}; not evaluated yet"
    return f"{policy}; {scaling.decision} at {scaling.evaluated_at}: {scaling.reason}"
