"""seff, sreport, scrontab, and when work starts that waits for its begin or for others."""

from tests.integration.api.test_slurm_listings import shown, slurm
from tests.integration.api.world import World, in_world


async def ran(world: World, seconds: int) -> None:
    await world.submit(name="train")
    number = max(world.state.allocations)
    await world.start_run(number)
    world.clock.ms += seconds * 1000
    await world.finish(number)


@in_world
async def test_seff_tells_how_well_a_job_used_what_it_held(world: World) -> None:
    await ran(world, 100)
    await world.submit(name="later")
    lines = await shown(world, "seff 1")
    assert lines[0] == "Job ID: 1"
    assert "State: COMPLETED (exit code 0)" in lines
    assert "Cores: 4" in lines
    assert "Job Wall-clock time: 00:01:40" in lines
    assert any(line.endswith("of 00:06:40 core-walltime") for line in lines)
    assert any(line.startswith("Memory Efficiency: ") for line in lines)
    assert (await shown(world, "seff 2"))[-1] == "Efficiency not available for jobs in the PENDING state."


@in_world
async def test_seff_refuses_what_is_no_job(world: World) -> None:
    answer = await slurm(world, "seff 77")
    assert (answer["code"], answer["stderr"]) == (1, "Job not found: 77\n")
    assert "Usage: seff" in (await slurm(world, "seff"))["stderr"]
    assert "Usage: seff" in (await slurm(world, "seff --bogus 1"))["stderr"]


@in_world
async def test_sreport_sums_what_was_held_in_the_span(world: World) -> None:
    await ran(world, 3600)
    lines = await shown(world, "sreport cluster utilization start=now-2hours end=now -t hours")
    assert lines[1].startswith("Cluster Utilization ")
    assert lines[2] == "Usage reported in CPU Hours"
    assert lines[-1].split()[1:] == ["4", "0", "0", "12", "0", "16"]
    users = await shown(world, "sreport -nP user topusage start=now-2hours")
    assert users == ["lattice|alice|alice|default|240|0"]
    sizes = await shown(world, "sreport -nP job sizesbyaccount start=now-2hours")
    assert sizes == ["lattice|default|240|0|0|0|0|100.00%"]
    half = await shown(world, "sreport -nP user topusage start=now-30minutes")
    assert half == ["lattice|alice|alice|default|120|0"]


@in_world
async def test_sreport_names_the_reports_that_there_are(world: World) -> None:
    answer = await slurm(world, "sreport cluster accountutilizationbyuser")
    assert answer["code"] == 1
    assert "cluster utilization, user topusage, job sizesbyaccount" in answer["stderr"]
    for line in ("user top start=whenever", "user top wckeys=a", "user top topcount=x", "user top -t weeks"):
        assert (await slurm(world, f"sreport {line}"))["code"] == 1, line


@in_world
async def test_the_last_task_of_an_array_has_the_number_of_the_array(world: World) -> None:
    await world.submit(name="sweep", tasks="0-2")
    for number in (2, 3, 4):
        await world.start_run(number)
        await world.finish(number)
    shown_ids = await shown(world, "sacct -nXP -o JobID,JobIDRaw")
    assert shown_ids == ["1_0|2", "1_1|3", "1_2|1"]


@in_world
async def test_scrontab_says_what_to_use(world: World) -> None:
    answer = await slurm(world, "scrontab -e")
    assert answer["code"] == 1
    assert "crontab -e" in answer["stderr"]


@in_world
async def test_work_with_a_begin_or_a_dependency_has_a_predicted_start(world: World) -> None:
    await world.submit(lifecycle={"walltime": "10m"}, begin="2026-03-05T10:00:00Z")
    await world.submit(depends_on="a1")
    first = (await world.call("GET", "/allocations/a1/explanation")).json()
    assert (first["predicted_start"], first["rank"]) == ("2026-03-05T10:00:00.000Z", None)
    second = (await world.call("GET", "/allocations/a2/explanation")).json()
    assert (second["predicted_start"], second["rank"]) == ("2026-03-05T10:10:00.000Z", None)
    starts = [line.split("|")[1] for line in await shown(world, ["squeue", "--start", "-h", "-o", "%i|%S"])]
    assert "N/A" not in starts
    await world.call("POST", "/allocations/a1/hold")
    held = (await world.call("GET", "/allocations/a2/explanation")).json()
    assert held["predicted_start"] is None


@in_world
async def test_work_after_a_run_may_start_when_its_walltime_is_over(world: World) -> None:
    await world.submit(lifecycle={"walltime": "10m"})
    await world.submit(depends_on="a1:any")
    await world.start_run(1)
    world.clock.ms += 60_000
    seen = (await world.call("GET", "/allocations/a2/explanation")).json()
    assert seen["predicted_start"] == "2026-03-05T08:50:00.000Z"
