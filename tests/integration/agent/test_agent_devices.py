"""Runs see the GPUs and CPUs that are theirs, across a restart of the agent too."""

import asyncio
import getpass
import json
import os
import stat
from pathlib import Path

import pytest

from lattice.wire.pb import agent_pb2 as pb
from tests.conftest import missing
from tests.integration.agent.agent_rig import cluster, until
from tests.integration.agent.shim_process import Client, ShimProcess

CPUS = sorted(os.sched_getaffinity(0))
SEE = "import os; print(sorted(os.sched_getaffinity(0)), os.environ['LATTICE_GPUS'])"


def topology(folder: Path) -> str:
    """Each CPU of this machine a domain of its own, two GPUs beside each."""
    domains = [
        {"id": place, "attached_cpus": [cpu], "attached_gpus": [2 * place, 2 * place + 1]}
        for place, cpu in enumerate(CPUS)
    ]
    gpus = [{"index": index, "vendor": "nvidia", "model": "H100"} for index in range(2 * len(CPUS))]
    links = [
        {"gpu_a": 2 * place, "gpu_b": 2 * place + 1, "link_type": "nvlink", "bandwidth_gbps": 450}
        for place in range(len(CPUS))
    ]
    file = folder / "node.json"
    file.write_text(json.dumps({"gpus": {"gpus": gpus, "links": links}, "memory": {"domains": domains}}))
    return str(file)


def test_the_shim_binds_a_run_to_its_cpus(shim: ShimProcess, agent: Client) -> None:
    for number, cpu in enumerate(CPUS, 1):
        fields = shim.request(number, "/usr/bin/env", "python3", "-S", "-c", SEE)
        fields["env"]["LATTICE_GPUS"] = ""
        agent.ask("start", **fields, cpus=[cpu])
        assert agent.ended(number)["exit_code"] == 0, shim.output(number, "stderr")
        assert shim.output(number) == f"[{cpu}] \n"


@pytest.mark.parametrize(("cpus", "problem"), [([60000], "cannot set up CPUs"), ([-1], "cpus"), ("0", "cpus")])
def test_cpus_that_are_not_there_are_an_error(
    shim: ShimProcess, agent: Client, cpus: list[int] | str, problem: str
) -> None:
    answer = agent.ask("start", **shim.request(1, "true"), cpus=cpus)
    assert not answer["ok"]
    assert problem in answer["error"]


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
def test_runs_on_one_node_have_devices_of_their_own_also_after_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster("--topology-file", topology(tmp_path)) as (server, agent):
            hardware = server.sessions[0].of_kind("register")[0].hardware
            assert (hardware.cpus, hardware.gpus, hardware.gpu_type) == (len(CPUS), 2 * len(CPUS), "H100")
            go = tmp_path / "go"
            server.start((1, 1), ["sh", "-c", f"while ! [ -e {go} ]; do sleep 0.05; done"], cpus=1, gpus=2)
            await server.running((1, 1))
            agent.kill()
            agent.start()
            await server.session(2)
            python = ["/usr/bin/env", "python3", "-S", "-c", SEE]
            server.start((2, 1), python, cpus=1, gpus=2)
            server.start((3, 1), python, cpus=1, gpus=2 * len(CPUS) - 1)
            assert (await server.ended((2, 1))).exit_code == 0
            assert await server.output((2, 1)) == f"[{CPUS[1]}] 2,3\n".encode()
            refused = await server.ended((3, 1))
            assert refused.cause == pb.END_CAUSE_LAUNCH
            assert "GPUs were assigned on this node, but" in refused.message
            go.touch()
            await server.ended((1, 1))
            server.start((4, 1), python, cpus=len(CPUS), gpus=2 * len(CPUS))
            await server.ended((4, 1))
            everything = ",".join(map(str, range(2 * len(CPUS))))
            assert await server.output((4, 1)) == f"{CPUS} {everything}\n".encode()

    asyncio.run(scenario())


def test_work_without_a_topology_is_not_bound() -> None:
    async def scenario() -> None:
        async with cluster("--cpus", "64") as (server, _):
            see = ["/usr/bin/env", "python3", "-S", "-c", "import os; print(sorted(os.sched_getaffinity(0)))"]
            server.start((1, 1), see, cpus=1)
            await server.ended((1, 1))
            assert await server.output((1, 1)) == f"{CPUS}\n".encode()

    asyncio.run(scenario())


@pytest.mark.root
@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
def test_share_opens_the_device_files_of_its_own_gpus_only(tmp_path: Path) -> None:
    """Character devices that stand for GPUs, under names that root may open by their mode."""
    found = (
        os.stat(f"/dev/{name}")
        for name in ("kmsg", "fuse", "loop-control", "net/tun")
        if os.path.exists(f"/dev/{name}")
    )
    numbers = [status.st_rdev for status in found if stat.S_ISCHR(status.st_mode)]
    if len(numbers) < 3:
        missing("a device file to give out (kmsg, fuse, loop-control, net/tun)")
    for number, name in zip(numbers, ("gpu0", "gpu1", "site"), strict=False):
        os.mknod(tmp_path / name, 0o666 | stat.S_IFCHR, number)
    gpus = [{"index": n, "vendor": "nvidia", "devices": [str(tmp_path / f"gpu{n}")]} for n in (0, 1)]
    file = tmp_path / "topology.json"
    file.write_text(json.dumps({"gpus": {"gpus": gpus}}))
    names = ("gpu0", "gpu1", "site")
    script = "; ".join(f"(: < {tmp_path}/{name}) 2>/dev/null && echo {name}" for name in names)
    shell = ["sh", "-c", f"{script}; : < /dev/urandom"]

    async def scenario() -> None:
        arguments = ("--topology-file", str(file), "--device", f"{tmp_path}/si*", "--cpus", str(len(CPUS)))
        async with cluster(*arguments) as (server, _agent):
            for number, share in ((1, {"cpus": 1}), (2, {"cpus": 1, "gpus": 1}), (3, {"cpus": len(CPUS), "gpus": 2})):
                server.start((number, 1), shell, **share)
                assert (await server.ended((number, 1))).exit_code == 0
            assert (await server.output((1, 1))).split() == [b"site"]
            assert (await server.output((2, 1))).split() == [b"gpu0", b"site"]
            assert (await server.output((3, 1))).split() == [b"gpu0", b"gpu1", b"site"]

    asyncio.run(scenario())


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
def test_tasks_of_a_step_have_cpus_of_their_own_and_the_nearest_gpus(tmp_path: Path) -> None:
    see = "import os; print(os.sched_getaffinity(0), os.environ['LATTICE_GPUS'], os.environ['LATTICE_TASK_CPUS'])"

    async def scenario() -> None:
        async with cluster("--topology-file", topology(tmp_path)) as (server, _agent):
            server.start((1, 1), ["sleep", "300"], cpus=len(CPUS), gpus=2 * len(CPUS))
            base = await server.running((1, 1))
            argv = ["/usr/bin/env", "python3", "-S", "-c", see]
            start = pb.StartRun(key=base.key, user=getpass.getuser(), cwd="/", nodes=["n1"], argv=argv)
            start.cpus, start.gpus = len(CPUS), 2 * len(CPUS)
            outputs = [tmp_path / f"out.{rank}" for rank in (0, 1)]
            tasks = [pb.StepTask(rank=rank, local_rank=rank, stdout=str(outputs[rank])) for rank in (0, 1)]
            step = pb.LaunchStep(
                base=start, step=0, launch_id="one", tasks=tasks, size=2, nodes=["n1"], cpus_per_task=1, gpus_per_task=2
            )
            server.newest.send(launch_step=step)
            await until(lambda: any(r.ended for r in server.newest.of_kind("step_report")), "the step to end")
            (report,) = [r for r in server.newest.of_kind("step_report") if r.ended]
            assert [task.exit_code for task in report.tasks] == [0, 0], report
            assert [path.read_text() for path in outputs] == [
                f"{{{CPUS[0]}}} 0,1 {CPUS[0]}\n",
                f"{{{CPUS[1]}}} 2,3 {CPUS[1]}\n",
            ]
            step.step, step.launch_id, step.cpu_bind = 1, "two", "map:9999"
            server.newest.send(launch_step=step)

            def refused() -> list[pb.StepReport]:
                return [r for r in server.newest.of_kind("step_report") if r.ended and r.key.step == 1]

            await until(refused, "the refusal")
            assert "CPU 9999 of the map is not one of the allocation's" in refused()[0].message
            server.stop((1, 1), grace_s=0.0)
            await server.ended((1, 1))

    asyncio.run(scenario())
