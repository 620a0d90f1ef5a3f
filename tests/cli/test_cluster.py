"""What operators and administrators type, and every operation of the client, against real servers."""

import json
from collections.abc import Callable

import pytest

from lattice.testing import LocalCluster, eventually
from lattice_sdk import AllocationFilter, Client, Conflict, NotFound, Submission

pytestmark = pytest.mark.e2e

TOLD = {"drain", "emptied", "undrain"}


def test_a_node_is_drained_and_comes_back(cluster: LocalCluster) -> None:
    assert cluster.cli("node", "drain", "n1", "--reason=fan 3").stdout == "n1 is Drained\n"
    assert "fan 3" in cluster.cli("nodes").stdout
    assert cluster.cli("nodes", "--state=drained", "-q").stdout == "n1\n"
    assert cluster.cli("admin", "undrain", "n1").stdout == "n1 is Ready\n"


def test_a_draining_node_is_not_undrained_while_work_runs(cluster: LocalCluster) -> None:
    allocation_id = cluster.cli("submit", "-q", "--nodelist=n2", "--", "sleep", "300").stdout.strip()
    cluster.wait_state(allocation_id, "Running")
    assert cluster.cli("node", "drain", "n2").stdout == "n2 is Draining\n"
    outcome = cluster.cli("node", "undrain", "n2", check=False)
    assert outcome.returncode == 1
    assert allocation_id in outcome.stderr
    cluster.cli("cancel", allocation_id)
    cluster.wait_node("n2", "Drained")
    cluster.cli("node", "undrain", "n2")


def test_a_disabled_node_stays_down_until_enabled(cluster: LocalCluster) -> None:
    assert cluster.cli("node", "disable", "n1", "--yes", "--reason=smoke").stdout == "n1 is Down\n"
    shown = json.loads(cluster.cli("node", "status", "n1", "-o", "json").stdout)
    assert (shown["state"], shown["down_cause"], shown["reason"]) == ("Down", "operator", "smoke")
    cluster.cli("node", "enable", "n1")
    cluster.wait_node("n1", "Ready")


def test_a_set_of_nodes_is_ordered_at_once_and_each_tells_its_story(cluster: LocalCluster) -> None:
    refused = cluster.cli("node", "drain", "n[1-2],n[7-9]", check=False)
    assert (refused.returncode, "3 unknown nodes: n[7-9]" in refused.stderr) == (4, True)
    mistyped = cluster.cli("node", "drain", "n[1-2x]", check=False)
    assert (mistyped.returncode, "character 3" in mistyped.stderr) == (2, True)
    assert cluster.cli("node", "drain", "n[1-2]", "--reason=filters").stdout == "2 nodes are Drained: n[1-2]\n"
    assert cluster.cli("node", "undrain", "n[1-2]", "--reason=done").stdout == "2 nodes are Ready: n[1-2]\n"
    history = json.loads(cluster.cli("node", "events", "n2", "--since=1h", "-o", "json").stdout)
    told = [(event["trigger"], event["state"], event["reason"]) for event in history if event["trigger"] in TOLD]
    assert told[-3:] == [
        ("drain", "Draining", "filters"),
        ("emptied", "Drained", "filters"),
        ("undrain", "Ready", "done"),
    ]


def test_an_urgent_drain_moves_the_work(cluster: LocalCluster) -> None:
    allocation_id = cluster.cli("submit", "-q", "--", "sleep", "300").stdout.strip()
    node = cluster.wait_state(allocation_id, "Running")["nodes"][0]
    unsure = cluster.cli("node", "drain", node, "--urgent", check=False)
    assert (unsure.returncode, "--yes" in unsure.stderr) == (2, True)
    cluster.cli("node", "drain", node, "--urgent", "--yes", "--reason=flood")

    def moved() -> bool:
        seen = cluster.allocation(allocation_id)
        return (seen["state"], seen["run"], node in seen["nodes"]) == ("Running", 2, False)

    eventually(moved, "the work runs elsewhere", within_s=60)
    cluster.wait_node(node, "Drained", within_s=60)
    cluster.cli("cancel", allocation_id)
    cluster.cli("node", "undrain", node)


def test_tenants_vclusters_projects_and_settings_are_kept(cluster: LocalCluster) -> None:
    cluster.cli("admin", "tenant", "create", "--name=physics", "--max-nodes=1")
    cluster.cli("admin", "vcluster", "create", "--name=gpu", "--tenant=physics", "--nodes=n1", "--max-walltime=1h")
    cluster.cli("admin", "project", "create", "lhc", "--tenant=physics", "--max-nodes=1")
    assert "physics" in cluster.cli("admin", "tenant", "list", "-q").stdout.split()
    shown = json.loads(cluster.cli("admin", "vcluster", "show", "gpu", "-o", "json").stdout)
    assert (shown["tenants"], shown["nodes"], shown["max_walltime_s"]) == (["physics"], ["n1"], 3600)
    assert "lhc" in cluster.cli("admin", "project", "list").stdout
    line = ("-t", "physics", "--vcluster=gpu", "--project=lhc", "--", "true")
    assert cluster.cli("submit", "--wait", "-q", *line).returncode == 0
    refused = cluster.cli("submit", "--walltime=2h", *line, check=False)
    assert refused.returncode == 1
    assert "walltime" in refused.stderr
    twice = cluster.cli("admin", "tenant", "create", "physics", check=False)
    assert (twice.returncode, twice.stdout) == (1, "")
    before = cluster.cli("admin", "config", "get", "scheduler.trace_capture").stdout
    cluster.cli("admin", "config", "set", "scheduler.trace_capture=true")
    assert cluster.cli("admin", "config", "get", "scheduler.trace_capture").stdout == "true\n"
    cluster.cli("admin", "config", "set", f"scheduler.trace_capture={before.strip()}")


READS: list[tuple[str, Callable[[Client], object]]] = [
    ("whoami", lambda c: c.whoami().user),
    ("scheduler_status", lambda c: c.scheduler_status().cycles),
    ("list_nodes", lambda c: c.list_nodes(state="ready")[0].cpus),
    ("get_node", lambda c: c.get_node("n1").memory_mb),
    ("list_tenants", lambda c: c.list_tenants()[0].name),
    ("get_tenant", lambda c: c.get_tenant("default").name),
    ("tenant_usage", lambda c: c.tenant_usage("default", 30).tenant),
    ("user_usage", lambda c: c.user_usage(days=30).days),
    ("list_vclusters", lambda c: c.list_vclusters()[0].name),
    ("get_vcluster", lambda c: c.get_vcluster("default").scheduler),
    ("dry_run", lambda c: c.dry_run(Submission(entrypoint=["true"])).predicted_nodes),
    ("list_settings", lambda c: c.list_settings()[0].key),
    ("is_healthy", lambda c: c.is_healthy()),
]


@pytest.mark.parametrize(("name", "read"), READS, ids=[name for name, _ in READS])
def test_every_answer_of_a_server_can_be_read(
    name: str, read: Callable[[Client], object], cluster: LocalCluster
) -> None:
    with cluster.client() as client:
        assert read(client)


def test_the_life_of_an_allocation_through_the_client(cluster: LocalCluster) -> None:
    with cluster.client() as client:
        held = client.submit(Submission(name="sdk", entrypoint="echo one; echo two", hold=True))
        assert client.get_allocation(held.id, details=True).details
        assert held.id in [allocation.id for allocation in client.vcluster_queue("default")]
        watch = client.watch([held.id])
        client.release(held.id)
        states = []
        for event in watch:
            states.append(event.state)
            if event.is_terminal:
                break
        watch.close()
        assert states[-1] == "Completed"
        ended = client.wait(held.id, timeout=30)
        assert (ended.state, ended.exit_code) == ("Completed", 0)
        assert client.logs(held.id, tail=1) == b"two\n"
        assert b"".join(chunk.data for chunk in client.stream_logs(held.id)) == b"one\ntwo\n"
        found = client.iter_history(AllocationFilter(name="sdk"), page_size=1)
        assert held.id in [allocation.id for allocation in found]
        assert client.count_allocations(AllocationFilter(name="sdk")).total >= 1
        with pytest.raises(Conflict):
            client.hold(held.id)
        with pytest.raises(NotFound):
            client.get_allocation("a999999")
        assert [outcome.ok for outcome in client.cancel_many(["a999999"])] == [False]
