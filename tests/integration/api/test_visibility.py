"""Who sees and administers what: users, tenants and their administrators; names of others appear nowhere."""

from typing import Any

import pytest

from lattice.core.machine.commands import SetReservation, SetTenant, SetVcluster
from lattice.core.model.site.reservations import AdvanceReservation
from lattice.core.model.site.tenants import Tenant, Vcluster, Visibility
from tests.integration.api.test_slurm_submissions import slurm
from tests.integration.api.world import World, in_world


async def two_tenants(world: World) -> None:
    """alpha (ann, adam) and beta (bob); beta has a vCluster and a reservation of its own."""
    await world.do(SetTenant(tenant=Tenant(name="alpha"), create=True))
    await world.do(SetTenant(tenant=Tenant(name="beta", max_nodes=8), create=True))
    await world.do(SetVcluster(vcluster=Vcluster(name="betaonly", tenants=("beta",), nodes=("n2",)), create=True))
    start = world.clock.now_ms() + 60_000
    kept = AdvanceReservation(
        name="secretres", start_at=start, end_at=start + 60_000, tenants=("beta",), users=("bob",), nodes=("n2",)
    )
    await world.do(SetReservation(reservation=kept, create=True))


def ann(world: World, scope: str = "") -> str:
    return world.token("ann", tenants=("alpha",), scope=scope)


def adam(world: World, scope: str = "") -> str:
    return world.token("adam", tenants=("alpha",), scope=scope)


def bob(world: World, scope: str = "") -> str:
    return world.token("bob", tenants=("beta",), scope=scope)


async def listed(world: World, path: str, token: str) -> list[str]:
    return [item["id"] for item in (await world.call("GET", path, token=token)).json()["items"]]


@in_world
async def test_users_see_their_own_work_until_their_tenant_says_otherwise(world: World) -> None:
    await two_tenants(world)
    await world.submit(token=ann(world), tenant="alpha")
    await world.submit(token=adam(world), tenant="alpha")
    assert await listed(world, "/allocations", ann(world)) == ["a1"]
    assert await listed(world, "/vclusters/default/queue", ann(world)) == ["a1"]
    assert (await world.call("GET", "/allocations/count", token=ann(world))).json()["total"] == 1
    assert (await world.call("GET", "/allocations/a2", token=ann(world))).status == 404
    assert await listed(world, "/allocations", ann(world, "tenant:admin")) == ["a2", "a1"]
    squeue = await slurm(world, "squeue", "-h", "-o", "%i", token=ann(world))
    assert squeue["stdout"].split() == ["1"]
    shown = (await world.call("GET", "/vclusters/default", token=ann(world))).json()
    assert shown["pending"] == 2, "how many there are is no secret"

    changed = await world.call("PUT", "/tenants/alpha", {"visibility": "tenant"}, token=adam(world, "tenant:admin"))
    assert (changed.status, changed.json()["visibility"]) == (200, "tenant")
    assert await listed(world, "/allocations", ann(world)) == ["a2", "a1"]
    assert (await world.call("DELETE", "/allocations/a2", token=ann(world))).status == 403
    assert sorted((await slurm(world, "squeue", "-h", "-o", "%i", token=ann(world)))["stdout"].split()) == ["1", "2"]
    refused = await world.call("PUT", "/tenants/alpha", {"visibility": "own"}, token=ann(world))
    assert refused.status == 403


@in_world
async def test_a_role_by_token_counts_in_the_tenants_of_the_token_alone(world: World) -> None:
    await two_tenants(world)
    await world.call("PUT", "/tenants/alpha", {"members": ["toby"]}, token=world.admin)
    await world.submit(token=ann(world), tenant="alpha")
    await world.submit(token=bob(world), tenant="beta")
    await world.start_run(1)
    toby = world.token("toby", tenants=("beta",), scope="tenant:admin")
    assert (await world.call("DELETE", "/allocations/a1", token=toby)).status == 404
    assert (await world.call("GET", "/allocations/a1/logs", token=toby)).status == 404
    project = {"tenant": "alpha", "name": "mine"}
    assert (await world.call("POST", "/projects", project, token=toby)).status == 403
    assert (await world.call("GET", "/tenants/alpha/usage", token=toby)).status == 403
    assert (await world.call("PUT", "/tenants/alpha", {"visibility": "tenant"}, token=toby)).status == 403
    report = (await world.call("GET", "/reports/usage?user=ann&tenant=alpha", token=toby)).status
    assert report == 403
    own = await world.call("POST", "/allocations", {"entrypoint": ["true"], "tenant": "alpha"}, token=toby)
    assert own.status == 201, "a member of alpha all the same"
    assert (await world.call("DELETE", "/allocations/a2", token=toby)).status == 202, "and administrator of beta"


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"max_nodes": 2}, 200),
        ({"max_nodes": 8}, 200),
        ({"max_nodes": 9}, 403),
        ({"max_nodes": None}, 403),
        ({"max_class": 3}, 200),
        ({"max_class": 3, "max_nodes": 20}, 403),
        ({"max_concurrent_allocations": 5}, 200),
        ({"max_running_per_user": 100, "max_pending_per_user": None}, 200),
        ({"gpu_hours_budget": 10}, 200),
        ({"fair_share_target": 0.9}, 403),
        ({"burst_allowance": 2}, 403),
        ({"on_quota": "queue"}, 403),
        ({"members": ["eve"]}, 403),
        ({"admins": ["bob"]}, 403),
    ],
)
def test_administrators_of_a_tenant_stay_inside_what_it_was_given(fields: dict[str, Any], status: int) -> None:
    @in_world
    async def scenario(world: World) -> None:
        await two_tenants(world)
        before = world.state.tenants["beta"]
        answer = await world.call("PUT", "/tenants/beta", fields, token=bob(world, "tenant:admin"))
        assert answer.status == status, answer.body
        if status != 200:
            assert next(name for name in fields if name in answer.error["message"])
            assert world.state.tenants["beta"] == before
        assert (await world.call("PUT", "/tenants/beta", fields, token=bob(world))).status == 403
        assert (await world.call("PUT", "/tenants/beta", fields, token=ann(world, "tenant:admin"))).status == 404

    scenario()


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"default_walltime": "1h", "profile": "responsive"}, 200),
        ({"max_walltime": "2h", "max_nodes": 4, "backfill_depth": 5}, 200),
        ({"max_walltime": "20h"}, 403),
        ({"max_walltime": None}, 403),
        ({"backfill_depth": 500}, 403),
        ({"weights": {"wait_time": 0.5, "priority": 0.5}}, 200),
        ({"weights": {"wait_time": 100}}, 403),
        ({"nodes": ["n1"]}, 403),
        ({"tenants": []}, 403),
        ({"up": False}, 403),
        ({"node_sharing": "shared"}, 403),
    ],
)
def test_administrators_of_a_tenant_set_up_its_own_vclusters(fields: dict[str, Any], status: int) -> None:
    @in_world
    async def scenario(world: World) -> None:
        await two_tenants(world)
        await world.call("PUT", "/vclusters/betaonly", {"max_walltime": "10h"}, token=world.admin)
        before = world.state.vclusters["betaonly"]
        answer = await world.call("PUT", "/vclusters/betaonly", fields, token=bob(world, "tenant:admin"))
        assert answer.status == status, answer.body
        assert (world.state.vclusters["betaonly"] == before) is (status == 403)
        shared = await world.call("PUT", "/vclusters/default", fields, token=bob(world, "tenant:admin"))
        assert (shared.status, "not for your tenant alone" in shared.error["message"]) == (403, True)
        assert (await world.call("PUT", "/vclusters/betaonly", fields, token=ann(world, "tenant:admin"))).status == 404
        new = await world.call("POST", "/vclusters", {"name": "x"}, token=bob(world, "tenant:admin"))
        assert new.status == 403

    scenario()


@in_world
async def test_limits_of_projects_stay_below_those_of_their_tenant(world: World) -> None:
    await two_tenants(world)
    admin = bob(world, "tenant:admin")
    project = {"tenant": "beta", "name": "deep", "max_nodes": 8}
    assert (await world.call("POST", "/projects", {**project, "max_nodes": 9}, token=admin)).status == 403
    assert (await world.call("POST", "/projects", project, token=admin)).status == 201
    assert (await world.call("PUT", "/projects/beta/deep", {"max_nodes": 9}, token=admin)).status == 403
    assert (await world.call("PUT", "/projects/beta/deep", {"max_nodes": 3}, token=admin)).status == 200


REST = [
    ("GET", "/vclusters", None),
    ("GET", "/vclusters/betaonly", None),
    ("GET", "/vclusters/betaonly/queue", None),
    ("GET", "/allocations?vcluster=betaonly", None),
    ("GET", "/allocations?vcluster=nowhere", None),
    ("GET", "/nodes", None),
    ("GET", "/nodes?vcluster=betaonly", None),
    ("GET", "/nodes/n2", None),
    ("GET", "/node-status", None),
    ("GET", "/reservations", None),
    ("GET", "/reservations/secretres", None),
    ("GET", "/tenants", None),
    ("GET", "/scheduler", None),
    ("POST", "/allocations", {"entrypoint": ["true"], "vcluster": "betaonly"}),
    ("POST", "/allocations", {"entrypoint": ["true"], "vcluster": "nowhere"}),
    ("POST", "/dags", {"allocations": [{"id": "a", "entrypoint": ["true"], "vcluster": "betaonly"}]}),
    ("POST", "/allocations/batch", {"submissions": [{"entrypoint": ["true"], "vcluster": "nowhere"}]}),
]
SLURM = [
    ("scontrol", "show", "res", "secretres"),
    ("scontrol", "show", "res"),
    ("scontrol", "show", "partition"),
    ("scontrol", "show", "partition", "betaonly"),
    ("scontrol", "show", "node", "n2"),
    ("sinfo", "-l"),
    ("sinfo", "-N", "-l"),
    ("sinfo", "-T"),
    ("sinfo", "-p", "betaonly"),
    ("squeue", "-a"),
    ("sbatch", "-p", "betaonly", "--wrap=true"),
    ("sbatch", "-p", "nowhere", "--wrap=true"),
    ("sbatch", "--reservation=secretres", "--wrap=true"),
    ("sacctmgr", "show", "assoc"),
    ("sshare", "-a"),
    ("sacct", "-a"),
]


@in_world
async def test_nothing_of_another_tenant_has_a_name(world: World) -> None:
    await two_tenants(world)
    await world.submit(token=bob(world), tenant="beta", vcluster="betaonly", name="hush")
    await world.start_run(1, node="n2")
    names = ("betaonly", "secretres", "beta", "bob", "hush")
    for method, path, body in REST:
        answer = await world.call(method, path, body, token=ann(world))
        text = (
            answer.body.decode()
            .replace('unknown vCluster \\"betaonly\\"', "")
            .replace('unknown reservation \\"secretres\\"', "")
        )
        assert not [name for name in names if name in text], (method, path, text)
    for program, *words in SLURM:
        said = await slurm(world, program, *words, token=ann(world))
        text = said["stdout"] + said["stderr"]
        for echoed in words:
            text = text.replace(echoed, "")
        text = text.replace("secretres", "") if "--reservation=secretres" in words else text
        assert not [name for name in names if name in text], (program, words, text)


@in_world
async def test_a_token_of_an_unknown_tenant_is_told_no_other_tenants_name(world: World) -> None:
    """An identity provider may know tenants that the cluster does not."""
    await two_tenants(world)
    stranger = world.token("eve", tenants=("gamma", "alpha"))
    for method, path, body in (
        ("POST", "/allocations", {"entrypoint": ["true"]}),
        ("POST", "/dags", {"allocations": [{"id": "x", "entrypoint": ["true"]}]}),
        ("GET", "/allocations?tenant=gamma", None),
    ):
        answer = await world.call(method, path, body, token=stranger)
        assert (answer.status, answer.error["hint"]) == (404, "known: alpha"), path
    assert (await slurm(world, "sbatch", "--wrap", "true", token=stranger))["stderr"].count("beta") == 0


@in_world
async def test_a_vcluster_of_others_is_refused_as_one_that_does_not_exist(world: World) -> None:
    await two_tenants(world)
    answers = []
    for name in ("betaonly", "nosuchone"):
        refused = await world.call("POST", "/allocations", {"entrypoint": ["true"], "vcluster": name}, token=ann(world))
        answers.append((refused.status, refused.body.replace(name.encode(), b"NAME")))
    assert answers[0] == answers[1]
    await world.do(SetVcluster(vcluster=Vcluster(name="default", tenants=("beta",))))
    refused = await world.call("POST", "/allocations", {"entrypoint": ["true"]}, token=ann(world))
    assert (refused.status, refused.error["message"]) == (403, 'no default vCluster is open to tenant "alpha"')


@in_world
async def test_events_name_only_what_concerns_the_watcher(world: World) -> None:
    await two_tenants(world)
    await world.do(SetVcluster(vcluster=Vcluster(name="betaonly", tenants=("beta",), nodes=("n1",))))
    await world.call("DELETE", "/reservations/secretres", token=world.admin)
    upkeep = {"name": "upkeep", "start": "2030-01-01", "duration": "1h"}
    await world.call("POST", "/reservations", upkeep, token=world.admin)
    seen = {}
    for who, token in (("ann", ann(world)), ("bob", bob(world))):
        stream = await world.open("/events?since=1&what=vcluster,reservation", token=token)
        labels: list[str] = []
        while "upkeep" not in labels:
            event = await stream.next()
            assert event is not None
            labels += [event.data["id"]] if event.event == "" else []
        seen[who] = set(labels) - {"default"}
    assert seen == {"ann": {"upkeep"}, "bob": {"upkeep", "betaonly", "secretres"}}


@in_world
async def test_a_dag_belongs_to_one_tenant(world: World) -> None:
    await two_tenants(world)
    both = world.token("zoe", tenants=("alpha", "beta"))
    members = [{"id": name, "entrypoint": ["true"], "tenant": name} for name in ("alpha", "beta")]
    refused = await world.call("POST", "/dags", {"allocations": members}, token=both)
    assert (refused.status, "one tenant" in refused.error["message"]) == (400, True)
    assert not world.state.allocations
    assert (await world.call("POST", "/dags", {"allocations": members[:1]}, token=both)).status == 201


@in_world
async def test_members_are_named_to_those_who_see_the_tenant(world: World) -> None:
    await two_tenants(world)
    await world.call("PUT", "/tenants/alpha", {"members": ["ann", "adam"], "admins": ["carl"]}, token=world.admin)
    shown = (await world.call("GET", "/tenants/alpha", token=ann(world))).json()
    assert (shown["members"], shown["admins"]) == (["ann", "others"], ["carl"])
    everyone = (await world.call("GET", "/tenants/alpha", token=ann(world, "tenant:admin"))).json()
    assert everyone["members"] == ["ann", "adam"]


def test_visibility_is_own_unless_set() -> None:
    assert Tenant(name="x").visibility is Visibility.OWN
