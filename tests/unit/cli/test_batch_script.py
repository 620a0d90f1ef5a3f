"""`lattice submit` of scripts with #SBATCH lines, against a server in memory."""

import pytest

from tests.unit.cli.runner import Cli, allocation
from tests.unit.sdk.fake_api import FakeApi, Reply

SCRIPT = "#!/bin/sh\n#SBATCH --nodes=2\ntrue\n"


@pytest.fixture(autouse=True)
def server(api: FakeApi) -> None:
    api.on("POST", "/slurm/commands", Reply(json={"stdout": "17\n"}))
    api.on("GET", "/allocations/17", Reply(json=allocation(state="Pending")))


def sent(api: FakeApi) -> dict[str, object]:
    found: dict[str, object] = next(each.json for each in api.asked if each.path.endswith("/slurm/commands"))
    return found


def test_the_script_goes_to_the_server_as_sbatch_would_send_it(api: FakeApi, cli: Cli) -> None:
    path = cli.write("s.sh", SCRIPT)
    outcome = cli("submit", path, "one", "two", OWN="1", LATTICE_TOKEN_FILE="/x")
    assert (outcome.out, outcome.err, outcome.code) == ("Submitted allocation a17\n", "", 0)
    body = sent(api)
    assert body["argv"] == ["--parsable", path, "one", "two"]
    assert (body["program"], body["script"], body["script_path"]) == ("sbatch", SCRIPT, path)
    handed = body["environment"]
    assert isinstance(handed, dict)
    assert (handed["OWN"], [name for name in handed if "TOKEN" in name]) == ("1", [])


def test_our_flags_stand_above_the_lines_of_the_script(api: FakeApi, cli: Cli) -> None:
    flags = ["--name=x", "--nodes=3", "--walltime=90s", "--hold", "--stdout=o.txt", "--vcluster=gpu", "--env=A=1"]
    assert cli("submit", *flags, cli.write("s.sh", SCRIPT)).code == 0
    words = sent(api)["argv"]
    assert isinstance(words, list)
    assert set(words[:-1]) == {
        *("--parsable", "--partition=gpu", "--job-name=x", "--nodes=3", "--time=1:30", "--hold", "--output=o.txt"),
    }


def test_flags_that_slurm_does_not_have_are_refused(api: FakeApi, cli: Cli) -> None:
    outcome = cli("submit", "--tag=a=b", cli.write("s.sh", SCRIPT))
    assert outcome.code == 2
    assert "--tag cannot be used with a script that has #SBATCH lines" in outcome.err
    assert api.asked == []


def test_what_has_no_effect_is_warned_of_and_what_is_refused_is_said(api: FakeApi, cli: Cli) -> None:
    path = cli.write("s.sh", SCRIPT)
    warned = "sbatch: warning: --licenses has no effect: licences are not counted\n"
    api.on("POST", "/slurm/commands", Reply(json={"stdout": "17\n", "stderr": warned}))
    assert cli("submit", path).err == "warning: #SBATCH --licenses ignored (licences are not counted)\n"
    refused = "sbatch: error: invalid partition specified: x\nsbatch: error: known partitions: default\n"
    api.on("POST", "/slurm/commands", Reply(json={"stderr": refused, "code": 1}))
    outcome = cli("submit", path)
    assert outcome.code == 1
    assert outcome.err.startswith("error: invalid partition specified: x\n  hint: known partitions: default")


@pytest.mark.parametrize(
    ("directive", "refusal", "said"),
    [
        ("--nodes=x", 'sbatch: error: "x" is not a valid node count\n', 'line 3: "x" is not a valid node count'),
        (
            "--foo=1",
            "sbatch: unrecognized option '--foo=1'\nTry \"sbatch --help\" for more information\n",
            "line 3: unrecog",
        ),
        ("--nodes=2", "sbatch: error: invalid partition specified: x\n", "error: invalid partition specified: x"),
    ],
)
def test_a_refused_line_is_named_with_its_file(api: FakeApi, cli: Cli, directive: str, refusal: str, said: str) -> None:
    path = cli.write("s.sh", f"#!/bin/sh\n#SBATCH --nodes=2\n#SBATCH {directive}\ntrue\n")
    api.on("POST", "/slurm/commands", Reply(json={"stderr": refusal, "code": 1}))
    outcome = cli("submit", path)
    assert outcome.code == 1
    assert said in outcome.err
    assert (f"{path}, line 3: " in outcome.err) == said.startswith("line 3")
