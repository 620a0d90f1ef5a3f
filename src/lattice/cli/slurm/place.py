"""Where the server is and who asks, found in the same places as by `lattice`, in the quick way where that is enough."""

from _json import scanstring
from posix import O_RDONLY, close, read, stat
from posix import open as open_file

_URL = '"api_url":'


class NoPlace(Exception):
    """Nobody named a cluster, or there is nothing to identify oneself with."""


class Place:
    """Addresses, the token, and the tenant that was chosen, if one was."""

    def __init__(self, endpoints: tuple[str, ...], token: str, tenant: str = "") -> None:
        self.endpoints = endpoints
        self.token = token
        self.tenant = tenant


def find_place(variables: dict[str, str]) -> Place:
    """Raises NoPlace. A configuration file is read in the long way, as it may say anything."""
    if _has_file(variables):
        return _by_settings(variables)
    tenant = variables.get("LATTICE_TENANT", "")
    url = variables.get("LATTICE_API_URL") or variables.get("LATTICE_ENDPOINT")
    token = variables.get("LATTICE_TOKEN") or _content(variables.get("LATTICE_TOKEN_FILE", "")).strip()
    if url and token:
        return Place(_endpoints(url), token, tenant)
    if url:
        return _by_settings(variables)
    directory = _local_directory(variables)
    url = _local_url(_content(f"{directory}/cluster.json"))
    token = token or _content(f"{directory}/token").strip()
    return Place(_endpoints(url), token, tenant) if url and token else _by_settings(variables)


def _has_file(variables: dict[str, str]) -> bool:
    if variables.get("LATTICE_CONFIG"):
        return True
    folder = variables.get("XDG_CONFIG_HOME") or f"{variables.get('HOME', '')}/.config"
    try:
        stat(f"{folder}/lattice/config.yaml")
    except OSError:
        return False
    return True


def _local_directory(variables: dict[str, str]) -> str:
    if chosen := variables.get("LATTICE_DIR"):
        return chosen
    state = variables.get("XDG_STATE_HOME") or f"{variables.get('HOME', '')}/.local/state"
    return f"{state}/lattice/local"


def _local_url(text: str) -> str:
    """The address in a cluster.json, without reading the rest of it."""
    at = text.find(_URL)
    start = text.find('"', at + len(_URL)) + 1
    return scanstring(text, start)[0] if at >= 0 and start > 0 else ""


def _endpoints(url: str) -> tuple[str, ...]:
    texts = (text.strip().rstrip("/") for text in url.split(","))
    return tuple(text if "://" in text else f"http://{text}" for text in texts if text)


def _content(path: str) -> str:
    if not path:
        return ""
    try:
        descriptor = open_file(path, O_RDONLY)
    except OSError:
        return ""
    try:
        data = read(descriptor, 1 << 20)
    except OSError:
        return ""
    finally:
        close(descriptor)
    return data.decode("utf-8", "replace")


def _by_settings(variables: dict[str, str]) -> Place:
    from lattice.cli.config import load_settings
    from lattice.cli.errors import CommandError
    from lattice.cli.flags import Flags

    try:
        settings = load_settings(Flags(), variables, lambda text: None)
        found = settings.place()
    except CommandError as error:
        raise NoPlace(str(error)) from None
    token = found.token or _content(found.token_file or "").strip()
    if not token:
        raise NoPlace(f"cannot read the token file {found.token_file}")
    return Place(_endpoints(found.api_url), token, settings.tenant)
