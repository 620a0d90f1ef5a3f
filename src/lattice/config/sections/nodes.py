"""Nodes: their signs of life, and the programs of the site that act on them."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from lattice.config.sections.values import Delay, Period


class NodeAgentSection(Struct, frozen=True, kw_only=True):
    heartbeat_interval_s: Period = 10.0  # time between two heartbeats of an agent
    heartbeat_timeout_s: Period = 30.0  # silence after which a node is Degraded
    grace_period_s: Period = 60.0  # further silence after which a Degraded node is Down
    # `heartbeat_timeout_s` of nodes that are claimed or run sensitive work
    sensitive_heartbeat_timeout_s: Period = 120.0
    sensitive_grace_period_s: Period = 300.0  # `grace_period_s` of those nodes
    borrowed_grace_period_s: Period = 30.0  # `grace_period_s` of nodes that work for a vCluster other than their own
    boot_timeout_s: Period = 600.0  # a node that is not Ready after this time failed to boot
    stop_grace_s: Delay = 30.0  # time between SIGTERM and SIGKILL
    order_retry_s: Period = 2.0  # an order that shows no effect is sent again after this time
    # a run that its node has not started after this time is rolled back and planned again
    start_timeout_s: Period = 60.0
    reconcile_every_s: Period = 30.0  # how often the runs of nodes are compared with the state


NodeEvent = Literal[
    "Unknown", "Booting", "Ready", "Degraded", "Down", "Draining", "Drained", "Failed", "Quarantine", "unfit", "fit"
]


class NodeSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`event_script` is run on the leading server with node events as JSON on its standard input; none = no script.

    `reboot_program` reboots the nodes that its standard input names; none = operators do that by hand.
    """

    # command and arguments, run on the leader with node events as JSON on stdin; empty = none
    event_script: list[str] = []
    event_script_timeout: Period = 30.0  # the script is killed after this time
    # most runs of the script per minute; events are gathered in between
    event_script_per_minute: Annotated[int, Meta(ge=1, le=600)] = 10
    event_script_states: list[NodeEvent] = []  # states and events that are reported to the script; empty = all
    # command and arguments that reboot the nodes named on stdin; empty = operators reboot by hand
    reboot_program: list[str] = []
    reboot_timeout: Period = 120.0  # the program is killed after this time


class SensitiveSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`wiper` is the site's command that wipes a node when sensitive work has left it: JSON on its standard input, 0 = clean."""

    wiper: list[str] = []  # command and arguments that wipe a node: JSON on stdin, exit code 0 = clean; empty = none
    wipe_timeout: Period = 1800.0  # a wipe that takes longer has failed, and its node is quarantined
    wipes_at_once: Annotated[int, Meta(ge=1, le=256)] = 32  # wipes that run at the same time


class OpenChamiSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where nodes that differ from their baseline are flagged: the State Management Daemon. Empty `url` = nowhere.

    `token` is a reference to a secret; `xnames` says how nodes are called there, where that is not by their own name.
    """

    url: Annotated[str, Meta(pattern=r"^(https?://[^\s]+)?$")] = ""  # URL of the State Management Daemon; empty = none
    token: str = ""  # access token, as a reference
    ca_file: str = ""  # PEM file with its authorities; empty = those of the system
    timeout: Period = 10.0  # longest time for one request
    xnames: dict[str, str] = {}  # names of nodes there, where they differ from ours
