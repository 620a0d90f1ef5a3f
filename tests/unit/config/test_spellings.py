"""Keys as the handbook of the specification spells them: what they mean here, and what is said of them."""

from pathlib import Path

import pytest

from lattice.config.load import ConfigError, load, read
from lattice.config.schema import ServerConfig
from lattice.config.spellings import _OF_SERVERS

HANDBOOK = """\
mode: dev
quorum:
  node_id: 1
  data_dir: /var/lib/lattice/raft
  bind_network: hsn
  peers:
    - {id: 2, address: "lattice-02:9000", rest: "http://lattice-02:8080", grpc: "lattice-02:50051", client: "lattice-02:2379"}
api:
  oidc_hmac_secret: file:///etc/lattice/secret
  tls_cert: /etc/lattice/tls/server.crt
  tls_key: /etc/lattice/tls/server.key
  tls_ca: /etc/lattice/tls/ca.crt
networks: {hsn: 10.1.0.0/16}
node_agent: {grace_period_seconds: 120}
rate_limit: {query_metrics_per_minute: 60}
raft: {snapshot_retention_count: 7}
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "server.yaml"
    path.write_text(text)
    return path


def complaint(tmp_path: Path, text: str) -> str:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load(path, ServerConfig)
    return str(caught.value).replace(str(path), "F")


def test_the_keys_of_the_handbook_mean_those_of_lattice(tmp_path: Path) -> None:
    config = load(written(tmp_path, HANDBOOK), ServerConfig)
    assert (config.name, config.data_dir, config.bind_network) == ("1", "/var/lib/lattice/raft", "hsn")
    assert [(peer.name, peer.peer) for peer in config.quorum.peers] == [("2", "lattice-02:9000")]
    assert config.api.hmac_secret == "file:///etc/lattice/secret"
    tls = config.api.tls
    assert (tls.certificate, tls.key) == ("/etc/lattice/tls/server.crt", "/etc/lattice/tls/server.key")
    assert tls.client_ca == "/etc/lattice/tls/ca.crt"
    assert config.node_agent.grace_period_s == 120
    assert config.rate_limits.query_metrics_per_minute == 60
    assert config.snapshots.keep == 7


def test_each_of_them_is_noted_with_its_place_and_the_key_of_lattice(tmp_path: Path) -> None:
    notes: list[str] = []
    path = written(tmp_path, HANDBOOK)
    read(path, ServerConfig, note=notes.append)
    told = [note.replace(str(path), "F") for note in notes]
    assert 'F:10:3: "api.tls_cert" is understood; the key is "api.tls.certificate"' in told
    assert 'F:16:8: "raft.snapshot_retention_count" is understood; the key is "snapshots.keep"' in told
    assert any('"id" in "quorum.peers" is understood; the key is "name"' in note for note in told)
    assert len(told) == 12
    notes.clear()
    read(written(tmp_path, "data_dir: /d\napi: {hmac_secret: file:///s}\n"), ServerConfig, note=notes.append)
    assert notes == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "name: s1\ndata_dir: /d\nquorum: {node_id: 1}\napi: {hmac_secret: file:///s}\n",
            'F:3:10: "quorum.node_id" is another spelling of "name", which is given, too',
        ),
        (
            "data_dir: /d\nraft: {snapshots: 1}\napi: {hmac_secret: file:///s}\n",
            'F:2:8: unknown key "snapshots" in "raft", which Lattice has not',
        ),
        (
            "data_dir: /d\napi: {hmac_secret: file:///s}\nquorum: {peers: [{id: 2, name: s2}]}\n",
            'F:3:17: "quorum.peers" has both "id" and "name"',
        ),
        (
            "data_dir: /d\napi: {hmac_secret: file:///s}\nnode_agent: {grace_period_seconds: soon}\n",
            'F:3:14: cannot read "soon" as a duration',
        ),
        ("data_dir: /d\napi: {hmac_secret: file:///s}\nfederation: {broker: b}\n", 'F:3:1: unknown key "federation"'),
        ("data_dir: /d\napi: {hmac_secret: file:///s}\nraft: 1\n", 'F:3:1: unknown key "raft"'),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    assert complaint(tmp_path, text).startswith(told)


def test_every_spelling_leads_to_a_key_that_exists_and_is_none_itself(tmp_path: Path) -> None:
    path = written(tmp_path, "data_dir: /d\napi: {hmac_secret: file:///s}\n")
    for spelling, key in _OF_SERVERS.keys.items():
        with pytest.raises(ConfigError, match="unknown key"):
            load(path, ServerConfig, [f"{spelling}=1"])
        assert "unknown key" not in _complaint_of(path, f"{key}=1"), key


def _complaint_of(path: Path, override: str) -> str:
    try:
        load(path, ServerConfig, [override])
    except ConfigError as error:
        return str(error)
    return ""
