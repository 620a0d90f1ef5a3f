"""What ranks and nodes may send: anything. Only the announced exceptions come of it, and pieces mean what the whole means."""

from hypothesis import given
from hypothesis import strategies as st

from lattice.agent.shim.pmi.layout import process_mapping
from lattice.agent.shim.pmi.pmi2_wire import Pmi2Wire
from lattice.agent.shim.pmi.ranks import LocalRanks
from lattice.agent.shim.pmi.requests import BadRank
from lattice.agent.shim.pmi.space import BadBlob, KeySpace, pack, unpack

INIT1 = b"cmd=init pmi_version=1 pmi_subversion=1\n"
INIT2 = b"cmd=init pmi_version=2 pmi_subversion=0\n"

words = st.text("abcdefgh0123456789-_()=,", min_size=1, max_size=20)
lines = st.one_of(
    st.sampled_from([b"cmd=get_maxes\n", b"cmd=barrier_in\n", b"cmd=finalize\n", b"cmd=abort exitcode=3\n"]),
    st.tuples(words, words).map(lambda pair: f"cmd=put kvsname=x key={pair[0]} value={pair[1]}\n".encode()),
    words.map(lambda key: f"cmd=get kvsname=x key={key}\n".encode()),
    st.binary(max_size=40),
)
frames = st.one_of(
    st.tuples(words, words).map(lambda pair: Pmi2Wire.answer("kvs-put", {"key": pair[0], "value": pair[1]})),
    st.sampled_from([Pmi2Wire.answer("kvs-fence", {}), Pmi2Wire.answer("fullinit", {"pmirank": "0"})]),
    st.binary(max_size=40),
)
conversations = st.one_of(
    st.lists(lines, max_size=8).map(lambda parts: INIT1 + b"".join(parts)),
    st.lists(frames, max_size=8).map(lambda parts: INIT2 + b"".join(parts)),
    st.binary(max_size=200),
)


def outcome(pieces: list[bytes]) -> tuple[bytes, str]:
    ranks = LocalRanks("a1.0", ((0,),), 0)
    try:
        for piece in pieces:
            ranks.receive(0, piece)
    except BadRank as problem:
        return bytes(ranks.sessions[0].output), str(problem)
    return bytes(ranks.sessions[0].output), ""


@given(conversations, st.integers(1, 7))
def test_pieces_of_a_conversation_mean_what_the_whole_means(data: bytes, size: int) -> None:
    pieces = [data[place : place + size] for place in range(0, len(data), size)]
    whole, parts = outcome([data]), outcome(pieces)
    # What is wrong is found earlier in one piece: answers before it are the same.
    assert bool(whole[1]) == bool(parts[1])
    assert parts[0] == whole[0] or (whole[1] and parts[0].startswith(whole[0]))


@given(st.dictionaries(st.text("abc", min_size=1, max_size=64), st.text("xyz;= ", max_size=1024), max_size=20))
def test_keys_survive_the_way_between_nodes(values: dict[str, str]) -> None:
    assert unpack(pack(values)) == values


@given(st.binary(max_size=300))
def test_a_hostile_node_can_send_no_more_than_keys(blob: bytes) -> None:
    space = KeySpace()
    try:
        space.apply(blob)
    except BadBlob:
        return


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40))
def test_the_process_mapping_leads_back_to_the_nodes(node_of: list[int]) -> None:
    nodes = sorted(set(node_of))
    node_ranks = [[rank for rank, node in enumerate(node_of) if node == each] for each in nodes]
    text = process_mapping(node_ranks)
    blocks = [tuple(map(int, part.split(","))) for part in text[len("(vector,(") : -2].split("),(")]
    found: list[int] = []
    while len(found) < len(node_of):
        for first, count, each in blocks:
            for node in range(first, first + count):
                found += [nodes[node]] * each
    assert found[: len(node_of)] == node_of


@given(st.text("k;=v \n", min_size=1, max_size=30))
def test_values_with_separators_survive_pmi2(value: str) -> None:
    (request,) = Pmi2Wire().take(Pmi2Wire.answer("kvs-put", {"key": "k", "value": value}))
    assert request.fields == {"key": "k", "value": value}
