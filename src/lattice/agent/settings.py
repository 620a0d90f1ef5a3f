"""How one agent is to behave, as its arguments say."""

from pathlib import Path

import msgspec

from lattice.agent.checks.options import Check
from lattice.agent.containers.node import ContainerSettings
from lattice.agent.discovery.hardware_file import HardwareFile
from lattice.agent.discovery.keeper import LOOK_EVERY_S
from lattice.agent.hooks.data import DataSettings
from lattice.agent.hooks.scratch import NO_SCRATCH, ScratchSettings
from lattice.agent.hooks.site_programs import SiteHooks
from lattice.agent.machine.state import Retention
from lattice.agent.messages import NodeFacts
from lattice.agent.runs.devices import NodeTopology
from lattice.agent.runs.launch import AccountPolicy
from lattice.agent.runs.limits import LimitSettings, NodeSize
from lattice.agent.telemetry.node import TelemetrySettings
from lattice.core.model.nodes.inventory import Inventory
from lattice.ports.nodes.blobs import BlobSource


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How one agent is to behave."""

    state_dir: Path
    facts: NodeFacts
    policy: AccountPolicy
    retention: Retention
    output_limit: int
    grace_s: float
    topology: NodeTopology = NodeTopology()
    limits: LimitSettings = LimitSettings()
    hooks: SiteHooks = SiteHooks()
    data: DataSettings = DataSettings()
    object_store: Path | None = None  # one that is a directory which this node sees
    scratch: ScratchSettings = NO_SCRATCH
    cache_dir: Path | None = None  # None = this node mounts no images
    blobs: BlobSource | None = None  # where images come from that are no files; None = from nowhere
    cache_bytes: int = 0  # what all images together may have; 0 = a share of the disk
    containers: ContainerSettings = ContainerSettings()
    bind_host: str = ""  # where the agent listens; empty = on every address
    collector_port: int | None = 0  # 0 = any, None = this node is never a collector
    metrics_listen: tuple[str, int] | None = None  # where the agent shows its figures; None = nowhere
    checks: tuple[Check, ...] = ()
    inventory: Inventory = Inventory()
    hardware: HardwareFile | None = None
    look_every_s: float = LOOK_EVERY_S
    telemetry: TelemetrySettings = TelemetrySettings()

    @property
    def node_size(self) -> NodeSize:
        return NodeSize(cpus=self.facts.cpus, memory_mb=self.facts.memory_mb)
