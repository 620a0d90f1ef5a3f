"""PMI-1 and PMI-2 as a rank sees them, without sockets."""

import pytest

from lattice.agent.shim.pmi import space as spaces
from lattice.agent.shim.pmi.layout import process_mapping, ranks_text
from lattice.agent.shim.pmi.pmi2_wire import Pmi2Wire
from lattice.agent.shim.pmi.ranks import LocalRanks
from lattice.agent.shim.pmi.requests import MAX_MESSAGE, BadRank

INIT1 = b"cmd=init pmi_version=1 pmi_subversion=1\n"
INIT2 = b"cmd=init pmi_version=2 pmi_subversion=0\n"


def ranks_of(*node_ranks: tuple[int, ...], place: int = 0, kinds: tuple[str, ...] = ("pmi1", "pmi2")) -> LocalRanks:
    return LocalRanks("a17.0", node_ranks or ((0, 1),), place, kinds)


def said(ranks: LocalRanks, rank: int, data: bytes) -> bytes:
    """The answer to what the rank sends."""
    ranks.sessions[rank].output.clear()
    ranks.receive(rank, data)
    return bytes(ranks.sessions[rank].output)


def frame(body: str) -> bytes:
    return f"{len(body):6d}{body}".encode()


def test_pmi1_answers_what_mpich_asks() -> None:
    ranks = ranks_of((0, 1), (2, 3))
    assert said(ranks, 0, INIT1) == b"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"
    assert said(ranks, 0, b"cmd=get_maxes\n") == b"cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"
    assert said(ranks, 0, b"cmd=get_appnum\n") == b"cmd=appnum appnum=0\n"
    assert said(ranks, 0, b"cmd=get_my_kvsname\n") == b"cmd=my_kvsname kvsname=a17.0\n"
    assert said(ranks, 0, b"cmd=get_universe_size\n") == b"cmd=universe_size size=4\n"
    mapping = said(ranks, 0, b"cmd=get kvsname=a17.0 key=PMI_process_mapping\n")
    assert mapping == b"cmd=get_result rc=0 msg=success value=(vector,(0,2,2))\n"
    assert said(ranks, 0, b"cmd=put kvsname=a17.0 key=k value=a=b\n") == b"cmd=put_result rc=0 msg=success\n"
    assert said(ranks, 0, b"cmd=get kvsname=a17.0 key=k\n") == b"cmd=get_result rc=0 msg=success value=a=b\n"
    assert b"rc=-1" in said(ranks, 0, b"cmd=get kvsname=a17.0 key=none\n")
    assert said(ranks, 0, b"cmd=finalize\n") == b"cmd=finalize_ack\n"
    assert (ranks.kind, ranks.met) == ("pmi1", 1)


def test_pmi2_answers_what_slurms_client_asks() -> None:
    ranks = ranks_of((0, 1))
    assert said(ranks, 1, INIT2) == b"cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n"
    full = Pmi2Wire().take(said(ranks, 1, frame("cmd=fullinit;pmijobid=a17.0;pmirank=1;threaded=FALSE;")))[0]
    assert (full.name, full.fields["rank"], full.fields["size"], full.fields["rc"]) == (
        "fullinit-response",
        "1",
        "2",
        "0",
    )
    assert said(ranks, 1, frame("cmd=job-getid;")) == frame("cmd=job-getid-response;jobid=a17.0;rc=0;")
    put = frame("cmd=kvs-put;thrid=5;key=k;value=a;;b;")
    assert said(ranks, 1, put) == frame("cmd=kvs-put-response;thrid=5;rc=0;")
    got = said(ranks, 1, frame("cmd=kvs-get;jobid=a17.0;srcid=-1;key=k;"))
    assert got == frame("cmd=kvs-get-response;found=TRUE;value=a;;b;rc=0;")
    assert b"found=FALSE" in said(ranks, 1, frame("cmd=kvs-get;jobid=a17.0;srcid=-1;key=none;"))
    size = said(ranks, 1, frame("cmd=info-getjobattr;key=universeSize;"))
    assert size == frame("cmd=info-getjobattr-response;found=TRUE;value=2;rc=0;")
    assert b"rc=1" in said(ranks, 1, frame("cmd=spawn;ncmds=1;"))
    assert ranks.wanted_spawn


def test_an_attribute_of_the_node_is_waited_for() -> None:
    ranks = ranks_of((0, 1))
    for rank in (0, 1):
        ranks.receive(rank, INIT2)
    assert said(ranks, 0, frame("cmd=info-getnodeattr;key=a;wait=TRUE;thrid=7;")) == b""
    assert said(ranks, 1, frame("cmd=info-putnodeattr;key=a;value=v;")) == frame("cmd=info-putnodeattr-response;rc=0;")
    answered = frame("cmd=info-getnodeattr-response;thrid=7;found=TRUE;value=v;rc=0;")
    assert bytes(ranks.sessions[0].output) == answered


def test_a_fence_holds_all_ranks_of_the_node_until_it_is_released() -> None:
    ranks = ranks_of((0, 1), (2,))
    for rank in (0, 1):
        ranks.receive(rank, INIT1)
    assert (
        said(ranks, 0, b"cmd=put kvsname=x key=k0 value=v0\ncmd=barrier_in\n") == b"cmd=put_result rc=0 msg=success\n"
    )
    assert (ranks.is_waiting, ranks.is_full, ranks.missing()) == (True, False, [1])
    assert said(ranks, 1, b"cmd=barrier_in\n") == b""
    assert ranks.is_full
    assert spaces.unpack(ranks.space.take_fresh()) == {"k0": "v0"}
    ranks.space.apply(spaces.pack({"k2": "v2"}))
    ranks.release()
    assert bytes(ranks.sessions[1].output) == b"cmd=barrier_out\n"
    assert said(ranks, 1, b"cmd=get kvsname=x key=k2\n") == b"cmd=get_result rc=0 msg=success value=v2\n"
    assert (ranks.is_waiting, ranks.space.take_fresh()) == (False, b"")


def test_ranks_that_left_are_known_to_a_fence() -> None:
    ranks = ranks_of((0, 1, 2))
    for rank in (0, 1, 2):
        ranks.receive(rank, INIT1)
    ranks.receive(1, b"cmd=finalize\n")
    ranks.closed(2)
    ranks.receive(0, b"cmd=barrier_in\n")
    assert ranks.gone() == [1, 2]


@pytest.mark.parametrize(("line", "code"), [(b"cmd=abort exitcode=7\n", 7), (b"cmd=abort exitcode=1 message=a b\n", 1)])
def test_an_abort_has_a_rank_and_a_code_even_in_a_fence(line: bytes, code: int) -> None:
    ranks = ranks_of()
    ranks.receive(1, INIT1 + b"cmd=barrier_in\n" + line)
    assert ranks.aborted is not None
    assert (ranks.aborted.rank, ranks.aborted.code) == (1, code)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"GET / HTTP/1.1\r\n", "not PMI"),
        (b"\x00\xff\x16\x03\n", "not PMI"),
        (b"x" * 2000, "not PMI"),
        (b"cmd=init pmi_version=3\n", "neither PMI-1 nor PMI-2"),
        (b"cmd=put key=a value=b\n", "neither PMI-1 nor PMI-2"),
        (b"cmd=init pmi_version=x\n", "not a number"),
        (INIT1 + b"cmd=put kvsname=x key=" + b"k" * 65 + b" value=v\n", "the limit is 64"),
        (INIT1 + b"cmd=put kvsname=x key=k value=" + b"v" * 1025 + b"\n", "the limit is 1,024"),
        (INIT1 + b"cmd=put kvsname=x key= value=v\n", "the limits are"),
        (INIT1 + b"cmd=put kvsname=x value=v\n", "without key"),
        (INIT1 + b"v" * (MAX_MESSAGE + 1), "a line of more than"),
        (INIT1 + b"cmd=x " + b"a=b " * 100 + b"\n", "words"),
        (INIT1 + b"cmd=getbyidx kvsname=x idx=0\n", "not supported"),
        (INIT1 + b"cmd=barrier_in\ncmd=get_appnum\n", "in a fence"),
        (INIT1 + b"cmd=finalize\ncmd=barrier_in\n", "after finalize"),
        (INIT1 + b"mcmd=spawn\n" + b"x\n" * 10_001, "spawn request of more than"),
        (INIT2 + b"999999x", "the limit is"),
        (INIT2 + b"    -1x", "not PMI-2"),
        (INIT2 + b"      x", "not PMI-2"),
        (INIT2 + frame("key=value;"), "not PMI-2"),
        (INIT2 + frame("cmd=a"), "not PMI-2"),
        (INIT2 + frame("cmd=a;cmd=b;"), "not PMI-2"),
        (INIT2 + frame("cmd=kvs-put;key=" + "k" * 65 + ";value=v;"), "the limit is 64"),
    ],
)
def test_garbage_and_oversized_requests_are_refused_with_a_reason(data: bytes, why: str) -> None:
    with pytest.raises(BadRank, match=why):
        ranks_of().receive(0, data)


def test_a_rank_may_not_put_keys_without_end() -> None:
    ranks = ranks_of()
    puts = b"".join(b"cmd=put kvsname=x key=%d value=v\n" % number for number in range(5000))
    with pytest.raises(BadRank, match="more than 4,096 keys"):
        ranks.receive(0, INIT1 + puts)


def test_all_ranks_of_a_step_speak_one_protocol_and_one_that_is_offered() -> None:
    ranks = ranks_of()
    ranks.receive(0, INIT1)
    with pytest.raises(BadRank, match="speaks PMI-2, but rank 0 PMI-1"):
        ranks.receive(1, INIT2)
    with pytest.raises(BadRank, match="--pmi=pmi2"):
        ranks_of(kinds=("pmi2",)).receive(0, INIT1)


def test_spawn_and_name_service_are_refused_by_an_answer() -> None:
    ranks = ranks_of()
    ranks.receive(0, INIT1)
    spawn = b"mcmd=spawn\nnprocs=2\nexecname=/bin/true\nendcmd\n"
    assert said(ranks, 0, spawn) == b"cmd=spawn_result rc=-1 msg=not_supported\n"
    assert ranks.wanted_spawn
    assert said(ranks, 0, b"cmd=publish_name service=a port=b\n") == b"cmd=publish_result rc=-1 msg=not_supported\n"


@pytest.mark.parametrize(
    ("node_ranks", "text"),
    [
        (((0, 1, 2, 3),), "(vector,(0,1,4))"),
        (((0, 1), (2, 3)), "(vector,(0,2,2))"),
        (((0, 2), (1, 3)), "(vector,(0,2,1))"),
        (((0, 1, 2), (3, 4)), "(vector,(0,1,3),(1,1,2))"),
        (((0, 2, 4), (1, 3)), "(vector,(0,2,1),(0,2,1),(0,1,1))"),
        (((0,), (1,), (2, 3)), "(vector,(0,2,1),(2,1,2))"),
    ],
)
def test_the_process_mapping_says_which_rank_is_where(node_ranks: tuple[tuple[int, ...], ...], text: str) -> None:
    assert process_mapping(node_ranks) == text


def test_ranks_in_words() -> None:
    assert ranks_text([4, 5, 6, 7]) == "ranks 4-7"
    assert ranks_text([3]) == "rank 3"
    assert ranks_text([9, 0, 1]) == "ranks 0-1,9"
