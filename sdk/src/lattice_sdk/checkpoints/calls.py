"""Checkpoints of allocations."""

from lattice_sdk.models.records import Page
from lattice_sdk.models.runs import Checkpoint
from lattice_sdk.operation import Steps, at, items_of, operation, read, write


class CheckpointCalls:
    @operation
    def request_checkpoint(self, allocation_id: str, *, wait: float = 0.0, request_id: str = "") -> Steps[Checkpoint]:
        """Ask a running allocation for a checkpoint; `wait` = seconds to wait until it is complete or has failed (at most 300)."""
        path = at("allocations", allocation_id, "checkpoint")
        return write("POST", path, Checkpoint, {"wait": wait}, request_id, timeout_s=wait + 30.0)

    @operation
    def list_checkpoints(self, allocation_id: str) -> Steps[list[Checkpoint]]:
        """The checkpoints of an allocation: those that are kept, the newest that failed, and one that is being written."""
        return items_of(read(at("allocations", allocation_id, "checkpoints"), Page[Checkpoint]))

    @operation
    def get_checkpoint(self, allocation_id: str, n: int, *, wait: float = 0.0) -> Steps[Checkpoint]:
        """One checkpoint of an allocation; `wait` = seconds to wait while it is being written (at most 300)."""
        path = at("allocations", allocation_id, "checkpoints", str(n))
        return read(path, Checkpoint, [("wait", str(wait))], timeout_s=wait + 30.0)
