"""Random commands about checkpoints: most fit the state, some are late, foreign or absurd on purpose."""

from random import Random

from lattice.core.machine import commands as cmd
from lattice.core.machine.state import State
from lattice.core.model.work.checkpoints import CheckpointPhase, CheckpointProtocol, CheckpointReason, CheckpointWay

ROOT = "/ck"


def draw_way(rnd: Random) -> CheckpointWay | None:
    """Half of the work can be asked."""
    return rnd.choice((None, None, CheckpointWay(), CheckpointWay(protocol=CheckpointProtocol.SHMEM)))


def draw_checkpoint(rnd: Random, state: State, number: int) -> cmd.AnyCommand:
    records = [record for record in state.allocations.values() if record.checkpoints.way is not None]
    opened = [record for record in records if record.checkpoints.open is not None]
    if opened and rnd.random() < 0.7:
        record = rnd.choice(opened)
        checkpoint = record.checkpoints.open
        assert checkpoint is not None
        n = checkpoint.n + rnd.choice((0, 0, 0, 0, 1))
        if rnd.random() < 0.1:
            return cmd.ExpireCheckpoint(number=record.number, n=n, message="no answer")
        node = rnd.choice([*(each.node for each in checkpoint.nodes), "n99"])
        phases = (CheckpointPhase.DONE, CheckpointPhase.DONE, CheckpointPhase.SEALED, *CheckpointPhase)
        return cmd.ReportCheckpoint(
            number=record.number,
            run=checkpoint.run + rnd.choice((0, 0, 0, 1)),
            n=n,
            node=node,
            phase=rnd.choice(phases),
            bytes=rnd.choice((0, 1000, -5)),
            elapsed_s=rnd.choice((0.0, 1.5)),
            message=rnd.choice(("", "because")),
        )
    if records and rnd.random() < 0.1:
        record = rnd.choice(records)
        return cmd.NoteCheckpointStored(number=record.number, n=rnd.choice((record.checkpoints.last_n, 1, 0)))
    chosen = rnd.choice([record.number for record in records]) if records and rnd.random() < 0.9 else number
    return cmd.RequestCheckpoint(number=chosen, reason=rnd.choice(tuple(CheckpointReason)))
