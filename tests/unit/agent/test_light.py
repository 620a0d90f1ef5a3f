"""The stand-ins of the shim behave like the modules whose place they take, and leave it again."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lattice.agent.shim import light

SOURCES = Path(light.__file__).parents[3]
VALUES: tuple[object, ...] = (
    {},
    {
        "op": "start",
        "number": 7,
        "env": {"A": "é\u2028\ud83d\ude00", "B": "\udc80", "C": '"\\\n\x00'},
        "limits": {"cpus": 1.5},
    },
    [None, True, False, -1, 10**20, 1e-7, 0.1, "", [], {"a": [{}]}],
    "text",
)


@pytest.mark.parametrize("place", range(len(VALUES)))
def test_values_are_written_and_read_as_json_does(place: int) -> None:
    text = json.dumps(VALUES[place])
    assert light.dumps(VALUES[place]) == text
    for data in (text, text.encode(), bytearray(f" {text}\r\n", "ascii")):
        assert light.loads(data) == json.loads(data)
    plain = json.dumps(VALUES[place], ensure_ascii=False).encode("utf-8", "surrogatepass")
    assert light.loads(plain) == VALUES[place]


@pytest.mark.parametrize("data", [b"", b"{", b"{}x", b'{"a"}', b"[1,", b"nul", b"\xff", b'"\x01"', b"{'a': 1}"])
def test_what_is_no_json_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        light.loads(data)


def test_value_that_json_cannot_write_is_refused() -> None:
    with pytest.raises(TypeError, match="bytes is not JSON serializable"):
        light.dumps({"a": b"b"})


def test_sockets_accept_connect_and_pass_data() -> None:
    with light.Socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        with light.create_connection(("127.0.0.1", listener.getsockname()[1])) as client:
            served, _ = listener.accept()
            with served:
                client.sendall(b"hello")
                assert served.recv(5) == b"hello"


def test_shim_loads_none_of_what_its_stand_ins_replace_and_real_modules_can_be_had_afterwards() -> None:
    program = f"""
import sys
sys.path.append({str(SOURCES)!r})
from lattice.agent.shim import light
light.take_their_place()
import lattice.agent.shim.shim
light.step_back()
print(*sorted({{"enum", "re", "typing", "json", "socket", "functools", "contextlib", "threading"}} & {{*sys.modules}}))
import json.decoder, re, socket, signal, functools, collections
print(signal.SIGTERM.name, socket.AF_INET.name, json.loads("1"), re.match("a", "a").end(), collections.OrderedDict())
"""
    command = [sys.executable, "-S", "-E", "-c", program]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines == ["", "SIGTERM AF_INET 1 1 OrderedDict()"]


def test_an_agent_that_was_given_a_token_alone_loads_no_cryptography() -> None:
    program = "import sys; import lattice.daemons.programs.agent; print('cryptography' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_nothing_is_replaced_where_the_parts_in_c_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    before = dict(sys.modules)
    monkeypatch.delitem(sys.modules, "json")
    monkeypatch.setattr(light, "_chunks", None)
    light.take_their_place()
    assert "json" not in sys.modules
    assert before.keys() - sys.modules.keys() == {"json"}
