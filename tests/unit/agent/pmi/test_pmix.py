"""PMIx beside libpmix: what a rank's environment is made of, what the server hears first, and who may connect."""

import os
import socket
import subprocess
import sys

import pytest

from lattice.agent.pmix.building import templates
from lattice.agent.shim.pmi.plan import PmiPlan
from lattice.agent.shim.pmi.pmix import is_own, listen, step_text
from lattice.agent.shim.pmi.ranks import PMIX, LocalRanks
from lattice.agent.shim.pmi.requests import BadRank

CALLER = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); print(s.getsockname()[1], flush=True); input()"


def test_the_environment_of_a_rank_keeps_what_the_library_says_and_names_what_differs() -> None:
    said = [
        "PMIX_NAMESPACE=lattice",
        "PMIX_RANK=0",
        "PMIX_SERVER_URI41=lattice.0;tcp4://127.0.0.1:4711",
        "PMIX_SERVER_TMPDIR=/tmp/x",
        "PMIX_HOSTNAME=node",
        "PMIX_GDS_MODULE=hash",
    ]
    assert templates(said) == {
        "JSM_JSRUN_PORT": "1",
        "PMIX_NAMESPACE": "{space}",
        "PMIX_RANK": "{rank}",
        "PMIX_SERVER_URI41": "lattice.0;tcp4://127.0.0.1:{port}",
        "PMIX_HOSTNAME": "{node}",
        "PMIX_GDS_MODULE": "hash",
    }


def test_the_server_hears_the_layout_of_the_step() -> None:
    text = step_text("a7.0.ab", ["n1", "n2"], [[0, 2], [1, 3]], 1, "/steps/7")
    assert text == b"a7.0.ab\n4\n1\nn1,n2\n0,2;1,3\n/steps/7"


def test_a_plan_without_a_program_is_refused() -> None:
    asked: dict[str, object] = {"kinds": ["pmix"], "nodes": ["n1"], "ranks": [[[0, 1]]], "place": 0}
    with pytest.raises(ValueError, match=r"pmi\.pmix"):
        PmiPlan(asked)
    asked["pmix"] = {"program": "/bin/true", "space": "a7.0.ab", "dir": "/steps/7/pmix", "env": {"PMIX_RANK": "{rank}"}}
    plan = PmiPlan(asked)
    assert plan.pmix is not None
    assert plan.pmix.variables == {"PMIX_RANK": "{rank}"}


def test_ranks_of_one_step_speak_pmix_or_another_protocol_but_not_both() -> None:
    ranks = LocalRanks("a7.0", [[0, 1]], 0)
    ranks.meet_pmix(0)
    ranks.meet_pmix(0)
    assert (ranks.kind, ranks.met) == (PMIX, 1)
    with pytest.raises(BadRank, match="speaks PMI-1, but rank 0 PMIx"):
        ranks.receive(1, b"cmd=init pmi_version=1 pmi_subversion=1\n")
    ranks.enter_all()
    assert ranks.is_full
    ranks.release()
    assert not ranks.is_waiting


def test_a_connection_of_the_same_user_is_own() -> None:
    with listen() as listener, socket.create_connection(listener.getsockname()) as caller:
        assert is_own(caller.getsockname()[1], listener.getsockname()[1])
        assert not is_own(1, listener.getsockname()[1])


@pytest.mark.root
def test_a_connection_of_another_user_is_not() -> None:
    with listen() as listener:
        port = listener.getsockname()[1]
        words = [
            "/usr/bin/env",
            "python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable,
            "-c",
            CALLER,
            str(port),
        ]
        pipe = subprocess.PIPE
        with subprocess.Popen(
            words, user=65534, cwd="/", stdin=pipe, stdout=pipe, env={"PATH": "/usr/bin:/bin"}
        ) as other:
            assert other.stdout is not None
            theirs = int(other.stdout.readline())
            try:
                assert not is_own(theirs, port)
            finally:
                other.kill()
