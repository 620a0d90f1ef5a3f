"""What is left on a node of steps whose allocation runs no script there."""

import asyncio
import getpass
from pathlib import Path

from lattice.wire.pb import agent_pb2 as pb
from tests.integration.agent.agent_rig import cluster, until


def test_nothing_is_left_of_what_a_step_was_to_be_asked_for_checkpoints_by(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster() as (server, agent):
            folder, go = agent.state_dir / "checkpoints" / "5.1", tmp_path / "go"
            argv = ["sh", "-c", f"test -d {folder} && while ! [ -e {go} ]; do sleep 0.02; done"]
            base = pb.StartRun(key=pb.RunKey(number=5, run=1), user=getpass.getuser(), cwd="/", nodes=["n1"], argv=argv)
            base.checkpoint.CopyFrom(pb.CheckpointSetup(strategy="manual", protocol="shmem", directory=str(tmp_path)))
            tasks = [pb.StepTask(rank=0, local_rank=0)]
            step = pb.LaunchStep(base=base, step=0, launch_id="one", tasks=tasks, size=1, nodes=["n1"])
            server.newest.send(launch_step=step)
            await until(lambda: (folder / "shm").exists(), "the step to be prepared")
            go.touch()
            await until(lambda: any(r.ended for r in server.newest.of_kind("step_report")), "the step to end")
            (report,) = [r for r in server.newest.of_kind("step_report") if r.ended]
            assert [task.exit_code for task in report.tasks] == [0], report
            server.newest.send(step_ack=pb.StepAck(key=report.key))
            await until(lambda: not folder.exists(), "the folder to be removed")

    asyncio.run(scenario())
