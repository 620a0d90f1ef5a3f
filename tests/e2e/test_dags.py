"""Dependencies and DAGs on a real cluster: what a user writes, sees and cancels, and what survives the server's death."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from lattice.testing import LocalCluster, eventually

pytestmark = pytest.mark.e2e

WORKFLOW = """
name: training-pipeline
allocations:
  - name: preprocess
    entrypoint: "echo ready"
    nodes: 1
    walltime: "2m"
  - name: train
    entrypoint: "exit 3"
    walltime: "2m"
    depends_on:
      - preprocess: success
  - name: evaluate
    entrypoint: "true"
    depends_on:
      - train: success
  - name: notify-failure
    entrypoint: "echo train failed"
    depends_on:
      - train: failure
"""
BY_REFERENCE = """
dag:
  allocations:
    - id: "stage-data"
      entrypoint: "true"
      resources: { nodes: 1 }
      lifecycle: { type: "bounded", walltime: "2m" }
    - id: "train"
      entrypoint: "exit 1"
      depends_on: [{ ref: "stage-data", condition: "success" }]
    - id: "evaluate"
      entrypoint: "true"
      depends_on: [{ ref: "train", condition: "any" }]
"""


def ended(cluster: LocalCluster, dag_id: str, within_s: float = 40.0) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        dag: dict[str, Any] = cluster.get(f"/dags/{dag_id}")
        return dag if dag["state"] != "Running" else None

    return eventually(look, f"the end of {dag_id}", within_s=within_s)


def states(dag: dict[str, Any]) -> dict[str, str]:
    return {member["ref"]: member["state"] for member in dag["allocations"]}


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "workflow.yaml"
    path.write_text(text)
    return str(path)


def test_a_workflow_runs_as_its_file_says_and_its_failure_is_caught(cluster: LocalCluster, tmp_path: Path) -> None:
    told = cluster.cli("dag", "submit", write(tmp_path, WORKFLOW)).stdout
    dag_id = told.split()[2]
    assert told == f"Submitted DAG {dag_id} with 4 allocations\n"
    dag = ended(cluster, dag_id)
    assert states(dag) == {
        "preprocess": "Completed",
        "train": "Failed",
        "evaluate": "Cancelled",
        "notify-failure": "Completed",
    }
    # Somebody was there for the failure of train.
    assert dag["state"] == "Completed"
    skipped = next(member for member in dag["allocations"] if member["ref"] == "evaluate")
    assert skipped["cause"] == "dependency"
    assert cluster.cli("logs", dag["allocations"][3]["id"]).stdout == "train failed\n"
    shown = cluster.cli("dag", "status", dag_id).stdout
    assert "training-pipeline: Completed" in shown
    assert "train:failure" in shown
    assert dag_id in cluster.cli("dag", "list").stdout


def test_references_work_as_well_as_names(cluster: LocalCluster, tmp_path: Path) -> None:
    dag_id = cluster.cli("dag", "submit", "-q", write(tmp_path, BY_REFERENCE)).stdout.strip()
    dag = ended(cluster, dag_id)
    assert states(dag) == {"stage-data": "Completed", "train": "Failed", "evaluate": "Completed"}
    assert dag["state"] == "Completed"
    with cluster.client() as client:
        assert client.get_dag(dag_id).state == "Completed"
        assert client.list_dags(state="completed")[0].id == dag_id


def test_the_graph_is_drawn_for_terminals_and_browsers(cluster: LocalCluster, tmp_path: Path) -> None:
    dag_id = cluster.cli("dag", "submit", "-q", write(tmp_path, WORKFLOW)).stdout.strip()
    ended(cluster, dag_id)
    drawn = cluster.cli("dag", "status", dag_id, "--graph").stdout
    assert "preprocess [Completed] → train [Failed] → evaluate [Cancelled]" in drawn
    assert "↘(failure) notify-failure [Completed]" in drawn
    graph = json.loads(cluster.cli("dag", "status", dag_id, "--graph", "-o", "json").stdout)
    assert {(edge["source"], edge["target"]) for edge in graph["edges"]} == {
        ("preprocess", "train"),
        ("train", "evaluate"),
        ("train", "notify-failure"),
    }
    status, svg = cluster.request("GET", f"/dags/{dag_id}/graph?format=svg")
    assert status == 200
    assert svg.startswith("<svg")
    assert "notify-failure" in svg


def test_cancelling_a_dag_ends_all_of_it(cluster: LocalCluster, tmp_path: Path) -> None:
    text = "allocations: [{name: a, entrypoint: sleep 60}, {name: b, entrypoint: 'true', depends_on: [{a: any}]}]"
    dag_id = cluster.cli("dag", "submit", "-q", write(tmp_path, text)).stdout.strip()
    first = cluster.get(f"/dags/{dag_id}")["allocations"][0]
    cluster.wait_state(first["id"], "Running")
    waiting = cluster.get(f"/dags/{dag_id}")["allocations"][1]
    assert waiting["reason"] == "waiting for a to end"
    cluster.cli("dag", "cancel", dag_id)
    dag = ended(cluster, dag_id)
    assert dag["state"] == "Cancelled"
    assert states(dag) == {"a": "Cancelled", "b": "Cancelled"}
    again = cluster.cli("dag", "cancel", dag_id, check=False)
    assert again.returncode == 1
    assert "already Cancelled" in again.stderr


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "allocations: [{name: a, entrypoint: x, depends_on: [c]}, {name: b, entrypoint: x, depends_on: [a]}, "
            "{name: c, entrypoint: x, depends_on: [b]}]",
            "cycle: a -> b -> c -> a",
        ),
        ("allocations: [{name: a, entrypoint: x}, {name: a, entrypoint: x}]", 'two allocations called "a"'),
        (
            "allocations: [{name: train, entrypoint: x}, {name: b, entrypoint: x, depends_on: [trian]}]",
            'depends on "trian", which is not in the DAG',
        ),
        ("allocations: [{name: a, entrypoint: x, depends_on: [a]}]", '"a" depends on itself'),
        ("allocations: [{name: a, entrypoint: x, depends_on: [{a99999: success}]}]", 'no allocation "a99999"'),
        ("allocations: [{name: a, entrypoint: x, depends_on: [{b: sometimes}]}]", '"sometimes" is not a condition'),
        ("allocations: [{name: a, entrypoint: x, nodes: 900}]", 'allocation "a"'),
        ("allocations: 5", 'a DAG needs "allocations"'),
    ],
)
def test_a_dag_that_cannot_be_is_refused_with_the_culprit(
    cluster: LocalCluster, tmp_path: Path, text: str, sentence: str
) -> None:
    before = cluster.get("/allocations?all=true")["items"][:1]
    refused = cluster.cli("dag", "submit", write(tmp_path, text), check=False)
    assert refused.returncode in {1, 2, 4}
    assert sentence in refused.stderr
    assert cluster.get("/allocations?all=true")["items"][:1] == before


def test_too_large_a_dag_is_refused_in_the_words_of_the_manual(cluster: LocalCluster, tmp_path: Path) -> None:
    members = ",".join(f"{{name: m{place}, entrypoint: 'true'}}" for place in range(1001))
    refused = cluster.cli("dag", "submit", write(tmp_path, f"allocations: [{members}]"), check=False)
    assert refused.returncode == 1
    assert "error: DAG exceeds maximum size (1001 allocations, limit: 1000)" in refused.stderr
    assert "split the workflow into smaller DAGs or increase the limit via system configuration" in refused.stderr


def test_dependencies_by_id_hold_work_back_and_let_it_go(cluster: LocalCluster) -> None:
    first = cluster.submit(["sleep", "60"])["id"]
    second = cluster.cli("submit", "-q", f"--depends-on={first}:any", "--", "true").stdout.strip()
    third = cluster.cli(
        "submit", "-q", f"--depends-on={first}:success,{second}?{first}:any", "--", "true"
    ).stdout.strip()
    cluster.wait_state(first, "Running")
    waiting = cluster.allocation(second)
    assert waiting["state"] == "Pending"
    assert waiting["reason"] == f"waiting for {first} to end"
    assert f"waiting for {first} to end" in cluster.cli("explain", second).stdout
    cluster.delete(f"/allocations/{first}")
    assert cluster.wait_end(second)["state"] == "Completed"
    skipped = cluster.wait_end(third)
    assert (skipped["state"], skipped["cause"]) == ("Cancelled", "dependency")
    unknown = cluster.cli("submit", "--depends-on=a99999", "--", "true", check=False)
    assert unknown.returncode == 4
    assert "unknown dependency" in unknown.stderr


def test_a_successor_starts_within_a_moment_of_its_predecessors_end(cluster: LocalCluster) -> None:
    first = cluster.submit(["sleep", "1"])["id"]
    second = cluster.submit(["true"], depends_on=f"{first}:success")["id"]
    done = cluster.wait_end(second)
    assert done["state"] == "Completed"
    assert done["eligible_at"] >= cluster.allocation(first)["completed_at"]


def test_a_mutex_lets_one_at_a_time_run_in_order(cluster: LocalCluster, tmp_path: Path) -> None:
    registry = tmp_path / "registry"
    registry.write_text("")
    script = f"echo start $LATTICE_ALLOC_ID >> {registry}; sleep 0.3; echo end $LATTICE_ALLOC_ID >> {registry}"
    ids = [cluster.submit(script, mutex="one")["id"] for _ in range(3)]
    for each in ids:
        assert cluster.wait_end(each)["state"] == "Completed"
    assert registry.read_text().split() == [word for each in ids for word in ("start", each, "end", each)]


def test_corresponding_tasks_follow_one_another_and_extra_ones_wait_for_nothing(cluster: LocalCluster) -> None:
    first = cluster.submit("test $LATTICE_TASK_INDEX != 1", tasks="0-2", resources={"cpus": 1})["id"]
    second = cluster.submit("true", tasks="0-4", depends_on=f"{first}:corresponding", resources={"cpus": 1})["id"]
    cluster.wait_end(second, within_s=60)
    ends = {place: cluster.allocation(f"{second}_{place}") for place in range(5)}
    assert {place: end["state"] for place, end in ends.items()} == {
        0: "Completed",
        1: "Cancelled",
        2: "Completed",
        3: "Completed",
        4: "Completed",
    }
    assert ends[1]["cause"] == "dependency"


def test_a_deadline_ends_what_can_no_longer_keep_it(cluster: LocalCluster) -> None:
    in_3_s = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 4))
    held = cluster.submit(["true"], hold=True, deadline=in_3_s, lifecycle={"walltime": "1s"})["id"]
    over = cluster.wait_end(held)
    assert (over["state"], over["cause"]) == ("Failed", "deadline")
    refused = cluster.cli("submit", "--deadline=now+1m", "--walltime=1h", "--", "true", check=False)
    assert refused.returncode == 1
    assert "the deadline comes before the allocation could end" in refused.stderr


def test_a_requeued_member_is_waited_for_again(cluster: LocalCluster, tmp_path: Path) -> None:
    flag = tmp_path / "second-run"
    script = f"if test -e {flag}; then exit 0; fi; touch {flag}; sleep 60"
    dag = cluster.post(
        "/dags",
        {
            "name": "again",
            "allocations": [
                {"id": "first", "entrypoint": script},
                {"id": "second", "entrypoint": "true", "depends_on": "first:success"},
            ],
        },
    )
    first, second = (member["id"] for member in dag["allocations"])
    eventually(flag.exists, "the first run")
    cluster.cli("requeue", first)
    assert states(ended(cluster, dag["id"])) == {"first": "Completed", "second": "Completed"}
    assert cluster.allocation(first)["restart_count"] == 1
    assert cluster.allocation(second)["restart_count"] == 0


def test_a_requeued_allocation_may_be_held_until_it_is_released(cluster: LocalCluster, tmp_path: Path) -> None:
    flag = tmp_path / "second-run"
    number = cluster.submit(f"if test -e {flag}; then exit 0; fi; touch {flag}; sleep 60")["id"]
    eventually(flag.exists, "the first run")
    assert "requeued and held" in cluster.cli("requeue", "--hold", number).stdout
    held = cluster.wait_state(number, "Pending")
    assert (held["reason"], held["restart_count"], held["requeue_count"]) == ("held by its user", 1, 0)
    cluster.cli("release", number)
    assert cluster.wait_end(number)["state"] == "Completed"


def test_a_dag_goes_on_over_the_death_of_the_server_and_into_the_archive(cluster: LocalCluster) -> None:
    layers, width = 5, 3
    members: list[dict[str, Any]] = []
    for layer in range(layers):
        for place in range(width):
            needs = ",".join(f"l{layer - 1}p{other}:success" for other in range(width)) if layer else ""
            members.append({"id": f"l{layer}p{place}", "entrypoint": ["sleep", "0.2"], "depends_on": needs})
    dag_id = cluster.post("/dags", {"name": "layers", "allocations": members})["id"]
    for _ in range(2):
        eventually(lambda: cluster.get(f"/dags/{dag_id}")["counts"]["completed"] >= 2, "some of it")
        old = cluster.kill("server")
        cluster.wait_replaced(old)
        cluster.wait_serving()
    dag = ended(cluster, dag_id, within_s=60)
    assert dag["state"] == "Completed"
    runs = {member["ref"]: cluster.allocation(member["id"]) for member in dag["allocations"]}
    assert all(run["state"] == "Completed" for run in runs.values())
    for layer in range(1, layers):
        before = max(runs[f"l{layer - 1}p{place}"]["completed_at"] for place in range(width))
        after = min(runs[f"l{layer}p{place}"]["started_at"] for place in range(width))
        assert before <= after
    cluster.put("/settings/archive.after_s", {"value": "0"})
    eventually(lambda: cluster.get(f"/dags/{dag_id}")["archived"], "the DAG in the archive")
    cluster.put("/settings/archive.after_s", {"value": "300"})
    assert states(cluster.get(f"/dags/{dag_id}")) == states(dag)
    assert dag_id in [each["id"] for each in cluster.get("/dags")["items"]]
