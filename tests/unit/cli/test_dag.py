"""`lattice dag`, and the flags of `lattice submit` that make work wait."""

from tests.unit.cli.runner import Cli, allocation
from tests.unit.sdk.fake_api import FakeApi, Reply

MEMBERS = [
    {"ref": "a", "id": "a22", "number": 22, "state": "Completed", "exit_code": 0},
    {
        "ref": "b",
        "id": "a23",
        "number": 23,
        "state": "Pending",
        "depends_on": "a:success",
        "reason": "waiting for a to complete",
    },
]
DAG = {
    "id": "d21",
    "number": 21,
    "name": "flow",
    "state": "Running",
    "user": "alice",
    "counts": {"size": 2, "pending": 1, "running": 0, "completed": 1, "failed": 0, "cancelled": 0},
}
FILE = """
name: flow
allocations:
  - name: a
    entrypoint: hostname
  - name: b
    entrypoint: hostname
    depends_on:
      - a: success
      - [a, {ref: x, condition: any}]
"""


def test_a_file_is_submitted_in_the_form_that_the_api_takes(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/dags", Reply(status=201, json={**DAG, "warnings": ["a: no mail"]}))
    outcome = cli("dag", "submit", cli.write("flow.yaml", FILE))
    assert (outcome.code, outcome.out) == (0, "Submitted DAG d21 with 2 allocations\n")
    assert "warning: a: no mail" in outcome.err
    body = api.last().json
    assert body["name"] == "flow"
    assert body["cwd"] == str(cli.folder)
    assert body["allocations"][1]["depends_on"] == [
        {"ref": "a", "condition": "success"},
        {"any_of": [{"ref": "a"}, {"ref": "x", "condition": "any"}]},
    ]


def test_a_dag_may_come_from_standard_input_and_only_its_id_be_told(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/dags", Reply(status=201, json=DAG))
    cli.stdin = b'{"dag": {"allocations": [{"id": "a", "entrypoint": "true"}]}}'
    assert cli("dag", "submit", "-q", "-").out == "d21\n"
    assert api.last().json["allocations"] == [{"id": "a", "entrypoint": "true"}]


def test_a_file_that_is_no_dag_is_refused_before_anything_is_sent(api: FakeApi, cli: Cli) -> None:
    for text, said in (
        ("x: 1\na: [", "flow.yaml: not valid YAML: did not find expected node content (line 3, column 1)"),
        (
            '{"name": "x",\n "allocations": [}',
            "flow.yaml: not valid JSON: JSON is malformed: invalid character (line 2, column 18)",
        ),
        ('{"allocations": [', "flow.yaml: not valid JSON: Input data was truncated"),
        ("- 1", 'needs "allocations"'),
        ("allocations: [5]", "allocations[0] is not a set of fields"),
        ("allocations: [{name: a, depends_on: 5}]", "neither a text nor a list"),
        ("allocations: [{name: a, depends_on: [5]}]", "cannot read '5'"),
    ):
        outcome = cli("dag", "submit", cli.write("flow.yaml", text))
        assert outcome.code != 0
        assert said in outcome.err
    assert "cannot read nowhere.yaml" in cli("dag", "submit", "nowhere.yaml").err
    assert cli("dag", "submit").code == 2
    assert cli("dag", "submit", "a", "b").code == 2
    assert api.asked == []


def test_status_shows_members_and_what_they_wait_for(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/dags/d21", Reply(json={**DAG, "allocations": MEMBERS}))
    shown = cli("dag", "status", "d21").out
    assert "DAG d21 flow: Running" in shown
    assert "2 allocations: 1 pending, 0 running, 1 completed, 0 failed, 0 cancelled" in shown
    assert "waiting for a to complete" in shown
    assert cli("dag", "status", "d21", "-o", "json").json["allocations"][1]["ref"] == "b"


def test_the_graph_is_printed_as_the_server_draws_it(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/dags/d21/graph", Reply(json={"id": "d21", "text": "a [Completed] → b [Pending]\n"}))
    assert cli("dag", "status", "d21", "--graph").out == "a [Completed] → b [Pending]\n"


def test_own_dags_are_listed_and_those_of_all_on_request(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/whoami", Reply(json={"user": "alice"}))
    api.on("GET", "/dags", Reply(json={"items": [DAG], "next_cursor": None}))
    assert "d21" in cli("dag", "list", "--state=running").out
    assert api.last().parameter("user") == "alice"
    assert api.last().parameter("state") == "running"
    cli("dag", "list", "--all")
    assert api.last().parameter("user") is None


def test_several_dags_are_cancelled_one_by_one(api: FakeApi, cli: Cli) -> None:
    for name in ("d21", "d22"):
        api.on("DELETE", f"/dags/{name}", Reply(status=202, json={**DAG, "id": name}))
    assert cli("dag", "cancel", "d21", "d22").lines == ["Cancelled DAG d21", "Cancelled DAG d22"]
    assert cli("dag", "cancel").code == 2


def test_submit_says_what_the_work_waits_for(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/allocations", Reply(status=201, json=allocation()))
    flags = (
        "--depends-on=a1:any",
        "--depends-on=a2?a3",
        "--mutex=m",
        "--deadline=now+2h",
        "--keep-on-invalid-dependency",
    )
    cli("submit", *flags, "--", "true")
    body = api.last().json
    assert body["depends_on"] == "a1:any,a2?a3"
    assert body["mutex"] == "m"
    assert body["deadline"] == "2026-03-05T14:00:00Z"
    assert body["keep_on_invalid_dependency"] is True


def test_a_dag_is_waited_for_and_its_end_is_the_exit_code(api: FakeApi, cli: Cli) -> None:
    failed = [{**MEMBERS[0], "state": "Failed", "exit_code": 3}, {**MEMBERS[1], "state": "Failed", "exit_code": None}]
    for state, members, code, told in (
        ("Completed", MEMBERS, 0, "d21 Completed\n"),
        ("Cancelled", failed, 130, "d21 Cancelled\n"),
        ("Failed", failed, 3, "d21 Failed (a, b failed)\n"),
        ("Failed", failed[1:], 125, "d21 Failed (b failed)\n"),
    ):
        api.on("GET", "/dags/d21", {**DAG, "state": state, "allocations": members})
        outcome = cli("wait", "d21")
        assert (outcome.code, outcome.out) == (code, told)


def test_dags_and_allocations_are_cancelled_by_one_line(api: FakeApi, cli: Cli) -> None:
    api.on("DELETE", "/dags/d21", Reply(status=202, json={**DAG, "state": "Running"}))
    api.on("DELETE", "/allocations/a17", Reply(status=202, json={**allocation(17), "state": "Cancelled"}))
    outcome = cli("cancel", "d21", "a17")
    assert (outcome.code, outcome.out) == (0, "d21 is being cancelled (Running)\na17 cancelled\n")
