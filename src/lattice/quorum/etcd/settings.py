"""How an etcd member is started: its settings, its command line, and the records about it."""

import socket
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lattice.quorum.durable import sync_folder, write_private
from lattice.quorum.etcd.version import Version
from lattice.quorum.trust.certificates import MEMBER_NAME, CertificateFolder

QUOTA_BYTES = 4 << 30


class MemberFailed(Exception):
    """The member could not be started, or does not answer; the text has its last log line."""


class MemberRemoved(MemberFailed):
    """This server was removed from the cluster."""

    def __init__(self, settings: "MemberSettings") -> None:
        super().__init__(
            f"server {settings.name} was removed from the cluster; "
            f"to use it again, empty its data directory and join it with a new invitation ({settings.folder})"
        )


@dataclass(frozen=True)
class MemberSettings:
    """A member's name, data directory and addresses (host:port)."""

    name: str
    folder: Path
    certificates: CertificateFolder
    client_listen: str
    peer_listen: str
    client_advertised: str = ""
    peer_advertised: str = ""
    program: str = "etcd"
    quota_bytes: int = QUOTA_BYTES
    heartbeat_ms: int = 100
    election_ms: int = 1000

    @property
    def client_endpoint(self) -> str:
        return self.client_advertised or self.client_listen

    @property
    def peer_url(self) -> str:
        return f"https://{self.peer_advertised or self.peer_listen}"

    @property
    def client_url(self) -> str:
        return f"https://{self.client_endpoint}"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def origin(self) -> Path:
        return self.folder / "member.json"

    @property
    def started(self) -> Path:
        """A marker that exists after the member first answered; from then on its data must exist."""
        return self.folder / "started"

    @property
    def removed(self) -> Path:
        """A marker that exists after this member was removed from the cluster."""
        return self.folder / "removed"

    @property
    def log(self) -> Path:
        return self.folder / "etcd.log"


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of the member's first start; etcd uses them only until it has data."""

    name: str
    token: str
    cluster: dict[str, str]
    is_joining: bool


def member_arguments(
    settings: MemberSettings, origin: Origin, version: Version, *, compares_first: bool = True
) -> list[str]:
    """The command line of a member; with `compares_first` it serves only if its data matches that of the others."""
    certificates = settings.certificates
    word = "true" if compares_first else "false"
    corruption_check = (
        f"--feature-gates=InitialCorruptCheck={word}"
        if version >= (3, 6, 0)
        else f"--experimental-initial-corrupt-check={word}"
    )
    cluster = ",".join(f"{name}={url}" for name, url in sorted(origin.cluster.items()))
    token = [f"--initial-cluster-token={origin.token}"] if origin.token else []
    return [
        f"--name={settings.name}",
        f"--data-dir={settings.data}",
        f"--listen-client-urls=https://{settings.client_listen}",
        f"--advertise-client-urls={settings.client_url}",
        f"--listen-peer-urls=https://{settings.peer_listen}",
        f"--initial-advertise-peer-urls={settings.peer_url}",
        f"--initial-cluster={cluster}",
        f"--initial-cluster-state={'existing' if origin.is_joining else 'new'}",
        *token,
        "--client-cert-auth=true",
        f"--trusted-ca-file={certificates.trusted}",
        f"--cert-file={certificates.member_certificate}",
        f"--key-file={certificates.member_key}",
        "--peer-client-cert-auth=true",
        f"--peer-trusted-ca-file={certificates.trusted}",
        f"--peer-cert-file={certificates.member_certificate}",
        f"--peer-key-file={certificates.member_key}",
        f"--peer-cert-allowed-cn={MEMBER_NAME}",
        "--pre-vote=true",
        corruption_check,
        "--strict-reconfig-check=true",
        "--enable-grpc-gateway=false",
        f"--quota-backend-bytes={settings.quota_bytes}",
        f"--heartbeat-interval={settings.heartbeat_ms}",
        f"--election-timeout={settings.election_ms}",
        # Entries that a member keeps for lagging ones: our log has its own snapshots.
        "--snapshot-count=10000",
        "--logger=zap",
        "--log-outputs=stderr",
        "--log-level=warn",
    ]


def check_free(address: str) -> None:
    """Refuses an address in use: the process that answers there would be mistaken for our member."""
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host.strip("[]"), int(port)))
        except OSError as error:
            raise MemberFailed(f"etcd cannot listen on {address}: {(error.strerror or str(error)).lower()}") from error


def has_data(settings: MemberSettings) -> bool:
    return (settings.data / "member").is_dir()


def private_folder(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)


def write_origin(settings: MemberSettings, origin: Origin) -> None:
    private_folder(settings.folder)
    scratch = settings.origin.with_suffix(".new")
    scratch.unlink(missing_ok=True)
    write_private(scratch, msgspec.json.encode(origin))
    scratch.rename(settings.origin)
    sync_folder(settings.folder)
