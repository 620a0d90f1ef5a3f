"""Commands about what services run. See docs/architecture/services.md."""

from lattice.core.machine.vocabulary.shape import Command


class ReviseService(Command, tag="revise_service", frozen=True, kw_only=True):
    """Another program for a service. `base` = the revision that it was made from: refused when there is a newer one."""

    number: int
    base: int
    payload: bytes
    probed: bool = False
    note: str = ""
    max_unavailable: int = 1
    ready_within_s: int = 120


class RollBackService(Command, tag="roll_back_service", frozen=True, kw_only=True):
    """An update that is on its way is taken back; else an earlier revision runs again, as a new one. None = the one before."""

    number: int
    to: int | None = None
    max_unavailable: int = 1
    ready_within_s: int = 120


class RenewInstance(Command, tag="renew_instance", frozen=True, kw_only=True):
    """The instance on the node is ended and started again there, with the revision that the service is to have."""

    number: int
    run: int
    node: str
    revision: int


class TurnRollout(Command, tag="turn_rollout", frozen=True, kw_only=True):
    """An instance of the revision did not become ready in time: the former one is taken up again, everywhere."""

    number: int
    revision: int
    reason: str


class EndRollout(Command, tag="end_rollout", frozen=True, kw_only=True):
    """Every instance has the revision that the service is to have."""

    number: int
    revision: int
