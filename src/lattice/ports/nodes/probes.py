"""Probes of a service's instances: what a server orders of them, and what a node says of its instances' readiness."""

from enum import Enum

from msgspec import Struct


class ProbeKind(Enum):
    """What follows from a probe."""

    LIVENESS = "liveness"  # one that fails ends the instance, which is started again
    READINESS = "readiness"  # one that fails takes the instance out of what is reached by its name
    STARTUP = "startup"  # until it has passed, the other two wait; one that fails ends the instance


class ProbeType(Enum):
    """How it is asked."""

    TCP = "tcp"  # the port takes a connection
    HTTP = "http"  # GET path answers with a status below 400
    EXEC = "exec"  # the command, run beside the instance, ends with code 0


class ProbeOrder(Struct, frozen=True, kw_only=True, gc=False):
    """One probe of every instance, asked by its node."""

    kind: ProbeKind
    type: ProbeType
    port: int = 0
    path: str = ""  # of http
    period_s: float = 30.0
    initial_delay_s: float = 0.0
    timeout_s: float = 5.0
    failure_threshold: int = 3
    success_threshold: int = 1
    command: tuple[str, ...] = ()  # of exec
    port_name: str = ""  # of a port that each node chooses; it puts its number into `port`
