"""`lattice-server init`: writes everything that a first server needs, and overwrites nothing."""

import argparse
import ipaddress
import os
import pwd
import re
import secrets
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from lattice.config.load import ConfigError
from lattice.config.places import config_dir, state_dir

if TYPE_CHECKING:
    from cryptography.x509 import GeneralName

SERVICE_USER = "lattice"
AUTHORITY_LIFETIME = timedelta(days=3650)
CERTIFICATE_LIFETIME = timedelta(days=825)
TOKEN_LIFETIME_S = 30 * 86400
UNITS = ("lattice-server.service", "lattice-agent.service")
PUBLIC, PRIVATE = 0o644, 0o600
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}")
_HOST = re.compile(r"[A-Za-z0-9:]([A-Za-z0-9.:-]{0,252}[A-Za-z0-9])?")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be written: contents and mode by path, in the order in which people read about them."""

    files: dict[Path, tuple[str, int]]
    steps: tuple[str, ...]


def build_parser() -> argparse.ArgumentParser:
    host = socket.getfqdn()
    parser = argparse.ArgumentParser(
        prog="lattice-server init",
        usage="%(prog)s [flags]",
        description="write configuration, secret, certificates, units and the first administrator's token of a new server",
    )
    parser.add_argument(
        "--dir",
        type=Path,
        default=config_dir(os.environ, os.geteuid()),
        metavar="DIR",
        help="directory for everything (default: /etc/lattice, without root lattice in $XDG_CONFIG_HOME or ~/.config)",
    )
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=state_dir(os.environ, os.geteuid()) / "server",
        metavar="DIR",
        help="data directory of the server (default: /var/lib/lattice/server, "
        "without root lattice/server in $XDG_STATE_HOME or ~/.local/state)",
    )
    parser.add_argument(
        "--host",
        default=host,
        metavar="NAME",
        help="name or address by which others reach this server (default: its name)",
    )
    parser.add_argument("--admin", default="", metavar="USER", help="the first administrator (default: you)")
    parser.add_argument(
        "--cluster",
        default="",
        metavar="NAME",
        help="name of the cluster, in Slurm commands and beside its data (default: lattice)",
    )
    parser.add_argument(
        "--rest-port", type=_port, default=8443, metavar="P", help="port of the REST API (default: %(default)s)"
    )
    parser.add_argument(
        "--grpc-port", type=_port, default=50051, metavar="P", help="port for agents (default: %(default)s)"
    )
    return parser


def _port(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port")
    return int(text)


def init(arguments: Sequence[str]) -> int:
    """Raises ConfigError, and has written nothing then."""
    options = build_parser().parse_args(arguments)
    plan = make_plan(options)
    present = [str(path) for path in plan.files if os.path.lexists(path) and not _says_nothing(path)]
    if present:
        raise ConfigError(f"init overwrites nothing: {', '.join(present)} exists already; choose another --dir")
    write(plan)
    for path in plan.files:
        sys.stdout.write(f"wrote {path}\n")
    sys.stdout.write("Next:\n" + "".join(f"  {step}\n" for step in plan.steps))
    return 0


def make_plan(options: argparse.Namespace) -> Plan:
    folder, host = options.dir.absolute(), options.host
    admin = options.admin or _caller()
    if not _HOST.fullmatch(host):
        raise ConfigError(f"--host: {host!r} is not the name or address of a machine")
    if not _NAME.fullmatch(admin):
        raise ConfigError(f"--admin: {admin!r} is not a valid user name")
    if options.cluster and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}", options.cluster):
        raise ConfigError(f"--cluster: {options.cluster!r} is not a valid name; use letters, digits and hyphens")
    for path in (folder, options.data_dir.absolute()):
        if not re.fullmatch(r"[A-Za-z0-9/._+-]+", str(path)):
            raise ConfigError(f"{path} has characters that units and configuration files do not take; choose another")
    secret = secrets.token_hex(32)
    authority, certificate, key = _certificates(host)
    program = Path(sys.executable).parent
    files = {
        folder / "server.yaml": (_server_yaml(options, folder), PUBLIC),
        folder / "server.secret": (f"{secret}\n", PRIVATE),
        folder / "tls/ca.crt": (authority, PUBLIC),
        folder / "tls/server.crt": (certificate, PUBLIC),
        folder / "tls/server.key": (key, PRIVATE),
        folder / "config.yaml": (_client_yaml(options, folder), PUBLIC),
        folder / "admin.token": (_token(secret, admin), PRIVATE),
        **{folder / "systemd" / name: (_unit(name, program, folder), PUBLIC) for name in UNITS},
    }
    config = folder / "server.yaml"
    site = f"LATTICE_CONFIG={folder}/config.yaml LATTICE_TOKEN_FILE={folder}/admin.token"
    return Plan(
        files=files,
        steps=(
            f"{program}/lattice-server --config {config} --check-config",
            _start(program, folder),
            f"{site} {program}/lattice doctor",
            f"{program}/lattice-server --config {config} --agent-token NODE > NODE.token    # for the agent of each node",
            f"{site} {program}/lattice admin node admit NODE    # a new node waits for that",
        ),
    )


def _start(program: Path, folder: Path) -> str:
    if os.geteuid() != 0:
        return f"{program}/lattice-server --config {folder}/server.yaml"
    return f"cp {folder}/systemd/lattice-server.service /etc/systemd/system/ && systemctl enable --now lattice-server"


def write(plan: Plan) -> None:
    """All files or none. Private files belong to the user of the server from the first byte on."""
    owner = _service_user()
    written: list[Path] = []
    try:
        for path, (text, mode) in plan.files.items():
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            is_new = os.O_TRUNC if _says_nothing(path) else os.O_EXCL
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | is_new | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
            written.append(path)
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                os.fchmod(file.fileno(), mode)
                if owner is not None and mode == PRIVATE and path.name != "admin.token":
                    os.fchown(file.fileno(), owner.pw_uid, owner.pw_gid)
                file.write(text)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        raise ConfigError(f"cannot write {error.filename or plan}: {error.strerror}; nothing was left") from None


def _says_nothing(path: Path) -> bool:
    """Whether it is a configuration with nothing but comments, as the package of the commands leaves it."""
    if path.suffix != ".yaml" or path.is_symlink():
        return False
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return False
    return all(not line.strip() or line.lstrip().startswith("#") for line in lines)


def _caller() -> str:
    uid = int(os.environ.get("SUDO_UID", os.getuid()))
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _service_user() -> pwd.struct_passwd | None:
    """The user of the unit, if this process may give files to it."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(SERVICE_USER)
    except KeyError:
        return None


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _server_name(host: str) -> str:
    """The first part of the machine's name, in quotes: names such as 7 or on are no text in YAML otherwise."""
    first = "" if _is_address(host) else re.sub(r"[^A-Za-z0-9-]", "-", host.partition(".")[0])
    return f'"{first or "server"}"'


def _server_yaml(options: argparse.Namespace, folder: Path) -> str:
    return f"""\
# Written by `lattice-server init`. docs/reference/configuration.md explains every key.
name: {_server_name(options.host)}
data_dir: {options.data_dir.absolute()}
api:
  hmac_secret: file://{folder}/server.secret
  rest_listen: 0.0.0.0:{options.rest_port}
  grpc_listen: 0.0.0.0:{options.grpc_port}
  advertised_url: https://{_address(options.host, options.rest_port)}
  tls:
    certificate: {folder}/tls/server.crt
    key: {folder}/tls/server.key
{f'slurm: {{cluster_name: "{options.cluster}"}}' if options.cluster else "# slurm: {cluster_name: NAME}   # tells this cluster from others"}
"""


def _client_yaml(options: argparse.Namespace, folder: Path) -> str:
    return f"""\
# Written by `lattice-server init`. Commands read /etc/lattice/config.yaml on every machine of the site.
endpoint: https://{_address(options.host, options.rest_port)}
ca_file: {folder}/tls/ca.crt
"""


def _token(secret: str, admin: str) -> str:
    from lattice.api.auth.tokens import sign_token

    now_s = int(time.time())
    return (
        sign_token(
            secret.encode(),
            user=admin,
            issued_at_s=now_s,
            lifetime_s=TOKEN_LIFETIME_S,
            tenants=["default"],
            scope="admin",
        )
        + "\n"
    )


def _unit(name: str, program: Path, folder: Path) -> str:
    """The unit, to which deploy/systemd has a link, with the paths of this installation."""
    text = (Path(__file__).with_name("units") / name).read_text(encoding="utf-8")
    return text.replace("/opt/lattice/bin", str(program)).replace("/etc/lattice", str(folder))


def _certificates(host: str) -> tuple[str, str, str]:
    """PEM texts: a new authority, the server's certificate with it, and the server's key. The authority's key is not kept."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    now = datetime.now(UTC) - timedelta(hours=1)  # other machines' clocks may be behind

    def begun(subject: str, key: ec.EllipticCurvePrivateKey, lifetime: timedelta) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
            .issuer_name(authority_name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now)
            .not_valid_after(now + lifetime)
        )

    def pem(certificate: x509.Certificate) -> str:
        return certificate.public_bytes(serialization.Encoding.PEM).decode()

    authority_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Lattice authority")])
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    constraints = x509.BasicConstraints(ca=True, path_length=0)
    begun_authority = begun("Lattice authority", authority_key, AUTHORITY_LIFETIME)
    authority = begun_authority.add_extension(constraints, critical=True).sign(authority_key, hashes.SHA256())
    certificate = (
        begun(host[:64], key, CERTIFICATE_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in _names(host)]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return pem(authority), pem(certificate) + pem(authority), key.private_bytes(*plain).decode()


def _names(host: str) -> list[str]:
    return list(
        dict.fromkeys([host, host.partition(".")[0] if not _is_address(host) else host, "localhost", "127.0.0.1"])
    )


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _general_name(name: str) -> "GeneralName":
    from cryptography import x509

    return x509.IPAddress(ipaddress.ip_address(name)) if _is_address(name) else x509.DNSName(name)
