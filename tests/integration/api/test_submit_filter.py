"""The site's submit filter: refuses, changes, warns, fails; whichever way a submission comes."""

import asyncio
import re
import stat
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lattice.integrations.submit_filter.programs import ProgramFilter, PythonFilter
from tests.integration.api.test_slurm_submissions import slurm
from tests.integration.api.world import World, in_world

DOCS = Path(__file__).parents[3] / "docs/admin/submit-filter.md"


def judge(asked: dict[str, Any]) -> object:
    """A filter as a Python function."""
    wanted = asked["submission"]
    match wanted["name"]:
        case "raise":
            raise KeyError("tenant")
        case "nonsense":
            return ["accept"]
        case "odd":
            return {"action": "accept", "changes": {"user": "root"}}
        case "wrong":
            return {"action": "accept", "changes": {"name": "two\nlines"}}
        case "away":
            return {"action": "accept", "changes": {"vcluster": "nowhere"}}
        case "no":
            return {"action": "refuse", "message": f"{asked['user']} may not", "hint": "ask somebody"}
        case _:
            changes = {"tags": {"seen": "yes"}, "walltime_s": 60, "cpus": 2, "features": [], "hold": True}
            return {"action": "accept", "changes": changes, "warnings": ["looked at"]}


def python_filter(**options: Any) -> PythonFilter:  # noqa: ANN401 - as PythonFilter has them
    return PythonFilter(f"{__name__}:judge", **{"timeout_s": 5.0, "at_once": 2, **options})


def script_filter(path: Path, text: str, **options: Any) -> ProgramFilter:  # noqa: ANN401 - as ProgramFilter has them
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return ProgramFilter([str(path)], **{"timeout_s": 10.0, "at_once": 2, **options})


def body(name: str) -> dict[str, Any]:
    return {"name": name, "entrypoint": ["true"], "tags": {"a": "1"}}


@in_world
async def test_what_a_filter_changes_is_what_is_submitted_and_its_warnings_are_told(world: World) -> None:
    world.services.submit_filter = python_filter()
    answer = (await world.call("POST", "/allocations", body("train"))).json()
    assert answer["warnings"] == ["looked at"]
    assert (answer["tags"], answer["walltime_s"], answer["hold"]) == ({"seen": "yes"}, 60, "operator")
    assert answer["resources"]["cpus"] == 2
    batch = await world.call("POST", "/allocations/batch", {"submissions": [body("one"), body("no")]})
    first, second = batch.json()["items"]
    assert first["allocation"]["tags"] == {"seen": "yes"}
    assert second["error"]["message"] == "alice may not"


def strict(asked: dict[str, Any]) -> object:
    """Cuts the walltime to a minute and refuses high classes; says in a warning what it was asked."""
    wanted = asked["submission"]
    if wanted["preemption_class"] > 5:
        return {"action": "refuse", "message": f"{asked['by']} may not use class {wanted['preemption_class']}"}
    said = f"{asked['event']} {asked['allocation']} {','.join(asked['changes'])}".strip()
    changes = {"walltime_s": min(60, wanted["walltime_s"]), "cpus": 2}
    return {"action": "accept", "changes": changes, "warnings": [said]}


@in_world
async def test_changes_are_judged_like_submissions(world: World) -> None:
    world.services.submit_filter = PythonFilter(f"{__name__}:strict", timeout_s=5.0, at_once=2)
    await world.call("POST", "/allocations", {**body("train"), "lifecycle": {"walltime": "30s"}})
    longer = await world.call("PATCH", "/allocations/a1", {"walltime": "24h"})
    assert (longer.json()["walltime_s"], longer.json()["warnings"]) == (60, ["update a1 walltime_s"])
    higher = await world.call("PATCH", "/allocations/a1", {"walltime": "24h", "preemption_class": 8})
    assert (higher.status, higher.error["message"]) == (422, "alice may not use class 8")
    named = (await world.call("PATCH", "/allocations/a1", {"name": "other", "tags": {"b": "2"}})).json()
    assert (named["name"], named["walltime_s"], named["resources"]["cpus"]) == ("other", 60, 2)
    assert named["tags"] == {"a": "1", "b": "2"}
    by_admin = await world.call("PATCH", "/allocations/a1", {"preemption_class": 8}, token=world.admin)
    assert (by_admin.status, "may not use class 8" in by_admin.error["message"]) == (422, True)
    update = await slurm(world, "scontrol", "update", "JobId=1", "TimeLimit=2-0")
    assert (update["code"], update["stderr"]) == (0, "scontrol: warning: update a1 walltime_s\n")
    assert world.state.allocations[1].walltime_s == 60
    fewer = await world.call("PATCH", "/allocations/a1", {"nodes": 1, "cpus": 4})
    assert (fewer.json()["resources"]["cpus"], fewer.json()["warnings"]) == (2, ["update a1 nodes,cpus"])
    world.services.submit_filter = python_filter()
    refused = await world.call("PATCH", "/allocations/a1", {"name": "raise"})
    assert (refused.status, refused.error["code"]) == (422, "policy")
    assert world.state.allocations[1].name == "other"


@in_world
async def test_the_hold_of_a_filter_is_not_for_its_user_to_release(world: World) -> None:
    world.services.submit_filter = python_filter()
    await world.call("POST", "/allocations", body("train"))
    refused = await world.call("POST", "/allocations/a1/release")
    assert refused.status == 403, refused.body
    assert (await world.call("POST", "/allocations/a1/release", token=world.admin)).status == 200
    assert world.state.allocations[1].hold == ""


@in_world
async def test_a_refusal_reaches_the_user_in_the_words_of_the_site(world: World) -> None:
    world.services.submit_filter = python_filter()
    refused = await world.call("POST", "/allocations", body("no"))
    assert refused.status == 422
    assert refused.json()["error"] == {"code": "policy", "message": "alice may not", "hint": "ask somebody"}
    member = {"name": "x", "entrypoint": ["true"]}
    dag = await world.call("POST", "/dags", {"allocations": [member, {**member, "name": "no"}]})
    assert dag.status == 422
    assert not world.state.allocations


@in_world
async def test_changes_are_checked_like_what_users_write(world: World) -> None:
    world.services.submit_filter = python_filter()
    assert (await world.call("POST", "/allocations", body("away"))).status == 404
    assert (await world.call("POST", "/allocations", body("wrong"))).status == 500
    assert not world.state.allocations


@in_world
async def test_a_filter_that_fails_refuses_unless_the_site_chose_otherwise(world: World) -> None:
    world.services.submit_filter = python_filter()
    for name in ("raise", "nonsense", "odd"):
        refused = await world.call("POST", "/allocations", body(name))
        assert (refused.status, refused.error["code"]) == (422, "policy"), name
        assert "filter" in refused.json()["error"]["message"]
    world.services.submit_filter = python_filter(accepts_on_failure=True)
    accepted = await world.call("POST", "/allocations", body("raise"))
    assert accepted.json()["tags"] == {"a": "1"}


@in_world
async def test_a_program_that_hangs_is_killed_and_others_have_their_turn(world: World) -> None:
    slow = f"#!{sys.executable}\nimport time\ntime.sleep(60)\n"
    with TemporaryDirectory() as folder:
        script = Path(folder) / "filter"
        world.services.submit_filter = script_filter(script, slow, timeout_s=0.5, at_once=1)
        calls = [world.call("POST", "/allocations", body(f"w{i}")) for i in range(3)]
        answers = await asyncio.wait_for(asyncio.gather(*calls), 20)
        assert [answer.status for answer in answers] == [422] * 3


@in_world
async def test_the_example_of_the_documentation_works(world: World) -> None:
    example = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)[0]
    with TemporaryDirectory() as folder:
        script = Path(folder) / "filter"
        world.services.submit_filter = script_filter(script, example)
        refused = await world.call("POST", "/allocations", {**body("big"), "resources": {"nodes": 3}})
        assert refused.json()["error"]["message"] == "more than 2 nodes need a project"
        long = await world.call("POST", "/allocations", {**body("long"), "lifecycle": {"walltime": "2h"}})
        assert long.json()["walltime_s"] == 3600
        assert long.json()["warnings"] == ["the walltime was cut to one hour"]
        assert "warnings" not in (await world.call("POST", "/allocations", body("plain"))).json()
