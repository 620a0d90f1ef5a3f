"""Where an agent gets images that are no files, and who it is there."""

from pathlib import Path

import msgspec

from lattice.config.secrets import SecretError, resolve
from lattice.daemons.agent.choices import CannotStart
from lattice.integrations.registry.pulls import HttpBlobs
from lattice.integrations.registry.transport import HttpFailed, Login, Transport
from lattice.ports.nodes.blobs import BlobSource


class _Account(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    host: str
    username: str
    password: str


def registry_blobs(file: Path | None) -> BlobSource:
    """Raises CannotStart for a file that is not understood. Passwords are read when a registry asks for them."""
    if file is None:
        return HttpBlobs(Transport())
    try:
        accounts = msgspec.json.decode(file.read_bytes(), type=list[_Account])
    except OSError as error:
        raise CannotStart(f"--registries: cannot read {file}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise CannotStart(f"--registries: {file}: {error}") from error
    return HttpBlobs(Transport({each.host: Login(each.username, _Password(each)) for each in accounts}))


class _Password:
    """Called when it is needed, so that a new one is found without a restart."""

    def __init__(self, account: _Account) -> None:
        self._account = account

    def __call__(self) -> str:
        key = f"the password for {self._account.host}"
        try:
            return resolve(self._account.password, key=key, mode="production").decode()
        except SecretError as error:
            raise HttpFailed(f"{self._account.host} cannot be asked: {error}") from error
