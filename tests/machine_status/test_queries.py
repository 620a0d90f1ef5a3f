"""The manager's interface: status queries with all their options, imports, and who may do what."""

from typing import Any
from urllib.parse import quote

import pytest

from lattice.core.model.nodes.observations import Beat
from tests.integration.api.world import Response, World, in_world
from tests.machine_status.sample_files import NODE_SPEC_CONF, PARTITION_PLACE, SLURM_CONF, SPEC_PLACE

ITEMS = [
    "Name",
    "OS",
    "CPUs",
    "Speed",
    "RealMemory",
    "VirtualMemory",
    "TmpDisk",
    "Partition",
    "LastResponse",
    "State",
]


async def import_text(world: World, text: str, token: str = "", **more: object) -> Response:
    body = {"files": [{"path": "/site/nodes", "text": text}], **more}
    return await world.call("POST", "/nodes/import", body, token=token or world.admin)


async def status(world: World, *conditions: str, token: str = "", **query: str) -> list[dict[str, Any]]:
    answer = await asked(world, *conditions, token=token, **query)
    assert answer.status == 200, answer.body
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def asked(world: World, *conditions: str, token: str = "", path: str = "/node-status", **query: str) -> Response:
    pairs = [*query.items(), *(("filter", condition) for condition in conditions)]
    address = path + "?" + "&".join(f"{name}={quote(value)}" for name, value in pairs)
    return await world.call("GET", address, token=token or world.alice)


async def site(world: World) -> None:
    """The six nodes of the sample, never heard, behind n1 and n2, which were."""
    for node in ("n1", "n2"):
        world.observations.hear(node, world.clock.monotonic_s() + (140 if node == "n1" else 50), Beat(seq=1))
    assert (await import_text(world, NODE_SPEC_CONF)).status == 200


@in_world
async def test_get_all_ten_items_of_a_node_that_was_only_specified(world: World) -> None:
    await site(world)
    third = (await status(world, nodes="lx03"))[0]
    assert list(third) == ITEMS
    assert third == {
        "Name": "lx03",
        "OS": "Linux.2.4.7-10",
        "CPUs": 2,
        "Speed": 1.5,
        "RealMemory": 3072,
        "VirtualMemory": 4096,
        "TmpDisk": 16384,
        "Partition": "1,2",
        "LastResponse": 0,
        "State": "DOWN",
    }
    record = (await world.call("GET", "/nodes/lx03", token=world.alice)).json()
    assert (record["status"], record["os"], record["partitions"], record["position"]) == (
        "DOWN",
        "Linux.2.4.7-10",
        [1, 2],
        3,
    )


@in_world
async def test_get_name_and_state_for_all_nodes(world: World) -> None:
    await site(world)
    found = await status(world, fields="Name,State")
    assert found[0] == {"Name": "lx01", "State": "DOWN"}
    # The order of the file first, then the others by name.
    assert [row["Name"] for row in found] == ["lx01", "lx02", "lx03", "lx04", "lx05", "lx06", "n1", "n2"]
    assert [row["State"] for row in found[-2:]] == ["IDLE", "IDLE"]


@in_world
async def test_the_last_response_is_a_time_in_seconds(world: World) -> None:
    await site(world)
    found = await status(world, fields="Name,LastResponse", nodes="n[1-2]")
    now = world.clock.ms // 1000
    assert [row["LastResponse"] - now for row in found] == pytest.approx([140, 50], abs=20)


@pytest.mark.parametrize(
    ("conditions", "names"),
    [
        (["State=DOWN", "CPUs<2"], ["lx04"]),
        (["state=idle"], ["n1", "n2"]),
        (["State=Unknown", "Speed>1.4"], ["lx03"]),
        (["State!=DOWN"], ["n1", "n2"]),
        (["Partition=3"], ["lx04"]),
        (["Partition=1", "RealMemory>=3072"], ["lx03"]),
        (["Name=lx[01-02]"], ["lx01", "lx02"]),
        (["Name!=lx[01-06]", "LastResponse>0"], ["n1", "n2"]),
        (["OS<=Linux.2.4.7-9"], ["n1", "n2"]),
        (["OS>Linux.2.4.7-9"], ["lx01", "lx02", "lx03", "lx04", "lx05", "lx06"]),
        (["Group=g1", "Name>n1"], ["n2"]),
        (["TmpDisk=16384", "CPUs=1"], ["lx04"]),
        (["Name>" + "9" * 1000, "State=idle"], ["n1", "n2"]),
    ],
)
def test_filter_on_any_field_with_any_comparison(conditions: list[str], names: list[str]) -> None:
    @in_world
    async def run(world: World) -> None:
        await site(world)
        assert [row["Name"] for row in await status(world, *conditions, fields="Name")] == names

    run()


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        ("Name", ["lx03", "lx04", "n1", "n2"]),
        ("-Name", ["n2", "n1", "lx04", "lx03"]),
        ("-LastResponse", ["n1", "n2", "lx03", "lx04"]),
        ("State,-Speed", ["lx03", "lx04", "n1", "n2"]),
        ("-CPUs,RealMemory", ["n1", "n2", "lx03", "lx04"]),
        ("Position", ["n1", "n2", "lx03", "lx04"]),
    ],
)
def test_sort_by_any_field_both_ways(sort: str, names: list[str]) -> None:
    @in_world
    async def run(world: World) -> None:
        await site(world)
        found = await status(world, fields="Name", sort=sort, nodes="n[1-2],lx[03-04]")
        assert [row["Name"] for row in found] == names
        whole = await asked(world, path="/nodes", sort=sort, nodes="n[1-2],lx[03-04]")
        assert [node["id"] for node in whole.json()["items"]] == names

    run()


@in_world
async def test_pages_go_on_behind_the_last_node_seen(world: World) -> None:
    await site(world)
    first = await asked(world, fields="Name", sort="-Name", limit="3")
    rest = await asked(world, fields="Name", sort="-Name", cursor=first.json()["next_cursor"])
    names = [row["Name"] for row in (*first.json()["items"], *rest.json()["items"])]
    assert names == ["n2", "n1", "lx06", "lx05", "lx04", "lx03", "lx02", "lx01"]
    assert rest.json()["next_cursor"] is None


@pytest.mark.parametrize(
    ("query", "message", "hint"),
    [
        (
            {"fields": "Name,Colour"},
            'unknown field "Colour"',
            "known: Name, OS, CPUs, Speed, RealMemory, VirtualMemory",
        ),
        ({"sort": "-Colour"}, 'unknown field "Colour"', "known: Name, OS"),
        ({"filter": "Colour=red"}, 'unknown field "Colour"', "known: Name, OS"),
        ({"filter": "State"}, 'cannot read the filter "State"', "write Field=Value"),
        ({"filter": "CPUs>two"}, 'CPUs is a number, "two" is none', ""),
        ({"filter": "State=asleep"}, 'unknown state "asleep"', "known: IDLE, BUSY, DRAINING, DRAINED, DOWN, Unknown"),
        ({"filter": "Partition=two"}, 'no partition "two"', "write Partition=2, or Partition= for those"),
        ({"filter": "Partition!=32"}, 'no partition "32"', "write Partition=2"),
        ({"filter": "Name=lx[1"}, 'cannot read "lx[1" as names of nodes', ""),
        ({"nodes": "n9"}, 'unknown node "n9"', "known: n[1-2]"),
    ],
)
def test_a_query_that_cannot_be_answered_says_what_could(query: dict[str, str], message: str, hint: str) -> None:
    @in_world
    async def run(world: World) -> None:
        answer = await asked(world, **query)
        assert answer.status in (400, 404)
        assert answer.error["message"].startswith(message)
        assert answer.error.get("hint", "").startswith(hint)

    run()


@in_world
async def test_a_summary_folds_the_nodes_of_each_state(world: World) -> None:
    await site(world)
    found = (await asked(world, path="/node-summary")).json()["items"]
    assert found == [
        {"State": "DOWN", "NodeState": "Unknown", "count": 6, "nodes": "lx[01-06]"},
        {"State": "IDLE", "NodeState": "Ready", "count": 2, "nodes": "n[1-2]"},
    ]
    some = (await asked(world, "Partition=2", path="/node-summary")).json()["items"]
    assert [row["nodes"] for row in some] == ["lx03"]


@in_world
async def test_any_user_may_get_and_only_operators_may_set(world: World) -> None:
    reader, operator = world.token("eye", scope="readonly"), world.token("olga", scope="operator")
    for token in (world.alice, reader, operator):
        assert [row["Name"] for row in await status(world, fields="Name", token=token)] == ["n1", "n2"]
    for token in (world.alice, reader, world.token("boss", scope="tenant:admin")):
        refused = await import_text(world, "Name=n1 CPUs=1\n", token)
        assert (refused.status, refused.error["code"]) == (403, "forbidden")
    assert (await import_text(world, "Name=n1 CPUs=1\n", operator)).status == 200
    unauthorised = await world.call("GET", "/node-status", token="nonsense")
    assert unauthorised.status == 401


@in_world
async def test_an_operator_may_not_change_vclusters_or_settings_by_an_import(world: World) -> None:
    operator = world.token("olga", scope="operator")
    refused = await import_text(world, "Name=n1 Partition=1\n", operator)
    assert (refused.status, refused.error["message"]) == (
        403,
        "these files change vClusters, which needs the permission vcluster:write",
    )
    assert world.state.nodes["n1"].specification is None


@in_world
async def test_a_dry_run_says_what_would_change_and_changes_nothing(world: World) -> None:
    text = "Name=n1 RealMemory=9999 Partition=1\nName=lx9\nName=n2\n"
    dry = (await import_text(world, text, dry_run=True)).json()
    assert (dry["added"], dry["changed"], dry["unchanged"], dry["dry_run"]) == (1, 2, 0, True)
    assert {(change["what"], change["name"]) for change in dry["changes"]} == {
        ("node", "lx9"),
        ("node", "n[1-2]"),
        ("vcluster", "partition1"),
    }
    assert dry["unfit"] == [{"what": "node", "name": "n1", "change": "RealMemory 4096 below the specified 9999"}]
    assert ("lx9" in world.state.nodes, "partition1" in world.state.vclusters) == (False, False)
    done = (await import_text(world, text)).json()
    assert done["changes"] == dry["changes"]
    again = (await import_text(world, text)).json()
    assert (again["added"], again["changed"], again["unchanged"], again["changes"]) == (0, 0, 3, [])
    more = (await import_text(world, text.replace("9999", "1024").replace("Name=n2", "Name=n2 CPUs=3"))).json()
    assert [(change["name"], change["change"]) for change in more["changes"]] == [
        ("n1", "RealMemory 9999 -> 1024"),
        ("n2", "CPUs any -> 3"),
    ]


@in_world
async def test_an_import_repeated_under_its_request_id_is_done_once(world: World) -> None:
    text = "Name=n1 Partition=1\nName=lx1\n"
    first = await import_text(world, text, request_id="again")
    index = world.replica.applied_index
    second = await import_text(world, text, request_id="again")
    assert (first.status, second.status, second.json()["changes"]) == (200, 200, [])
    assert world.replica.applied_index - index <= 1
    other = await import_text(world, text + "Name=lx2\n", request_id="again")
    assert other.status == 409


@in_world
async def test_whoever_has_errors_in_the_files_is_told_all_and_nothing_is_taken(world: World) -> None:
    refused = await import_text(world, "Name=lx1\nName=lx2 CPUs=many\nName=lx1\n")
    assert refused.error["message"].split("\n") == [
        "2 errors in the files; nothing was imported",
        "/site/nodes:2: CPUs=many: a whole number from 1 on is wanted",
        '/site/nodes:3: node "lx1" stands already in line 1',
    ]
    assert "lx1" not in world.state.nodes


@in_world
async def test_a_partition_that_no_file_names_any_more_is_told(world: World) -> None:
    await import_text(world, "Name=lx1 Partition=1\nName=lx2 Partition=1\n")
    again = (await import_text(world, "Name=lx1 Partition=1\n")).json()
    assert again["warnings"] == []
    moved = (await import_text(world, "Name=lx1 Partition=2\nName=lx2 Partition=2\n")).json()
    assert moved["warnings"] == [
        "vCluster partition1 keeps lx1, though no file puts a node there any more; "
        "`lattice admin vcluster update partition1 --down` ends it"
    ]


@in_world
async def test_a_misspelt_parameter_is_named_beside_the_error_that_it_leads_to(world: World) -> None:
    files = [
        {"path": "/site/conf", "text": "NodeSpecCnof = /site/nodes\nDefaultPartition = none\n"},
        {"path": SPEC_PLACE, "problem": "no such file or directory"},
        {"path": PARTITION_PLACE, "problem": "no such file or directory"},
    ]
    refused = await world.call("POST", "/nodes/import", {"files": files}, token=world.admin)
    first, error, warning = refused.error["message"].split("\n")
    assert first == "one error in the files; nothing was imported"
    assert error.startswith("/site/conf: the file names no NodeSpecConf")
    assert warning.startswith('/site/conf:1: unknown parameter "NodeSpecCnof" is not used')


@in_world
async def test_a_slurm_conf_asks_for_its_files_and_brings_partitions_settings_and_collectors(world: World) -> None:
    files: list[dict[str, str]] = [{"path": "/etc/SLURM.cfg", "text": SLURM_CONF + "DefaultPartition = batch\n"}]
    first = (await world.call("POST", "/nodes/import", {"files": files}, token=world.admin)).json()
    assert first["needs"] == [SPEC_PLACE, PARTITION_PLACE]
    assert len(world.state.nodes) == 2
    files += [
        {"path": SPEC_PLACE, "text": NODE_SPEC_CONF},
        {"path": PARTITION_PLACE, "text": "Number=1 Name=batch MaxTime=60\n"},
    ]
    done = await world.call("POST", "/nodes/import", {"files": files}, token=world.admin)
    assert (done.status, done.json()["added"]) == (200, 6)
    assert world.state.vclusters["batch"].max_walltime_s == 3600
    assert world.state.vclusters["partition2"].nodes == ("lx03",)
    assert world.state.settings["node.heartbeat_interval_s"] == "300"
    assert world.state.settings["node.collectors"] == "lx[01-02]"
    submitted = await world.submit()
    assert submitted["vcluster"] == "batch"


@in_world
async def test_an_unfit_node_is_drained_for_the_slurm_commands(world: World) -> None:
    await import_text(world, "Name=n1 CPUs=64\n")
    body = {"program": "sinfo", "argv": ["-N", "-h", "-o", "%N %T %E"]}
    answer = (await world.call("POST", "/slurm/commands", body, token=world.alice)).json()
    assert answer["stdout"].splitlines() == ["n1 drained CPUs 4 below the specified 64", "n2 idle none"]


@in_world
async def test_ten_thousand_nodes_are_imported_and_listed_in_one_call_each(world: World) -> None:
    lines = ["Name=DEFAULT CPUs=2 RealMemory=1024", *(f"Name=lx{number:05}" for number in range(10_000))]
    done = await import_text(world, "\n".join(lines) + "\n")
    assert (done.status, done.json()["added"]) == (200, 10_000)
    summary = (await asked(world, path="/node-summary")).json()["items"]
    assert summary[0]["nodes"] == "lx[00000-09999]"
    found = await status(world, "CPUs=2", fields="Name,State", sort="-Name")
    assert (len(found), found[0]["Name"]) == (10_000, "lx09999")
