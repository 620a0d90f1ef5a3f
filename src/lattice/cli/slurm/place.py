"""The server's address and the caller's token, found in the same places as by `lattice`, if that is fast.

The client library handles everything else (a configuration file with more than plain lines, TLS, a login).
"""

from _json import scanstring
from posix import O_RDONLY, close, read
from posix import open as open_file

SITE_FILE = "/etc/lattice/config.yaml"
_URL = '"api_url":'
_KEYS = {"endpoint": "endpoint", "api_url": "endpoint", "tenant": "tenant", "default_tenant": "tenant"}
_IGNORED = ("vcluster", "default_vcluster", "project", "default_project", "output_format", "color", "default_uenv")


class Place:
    """Addresses, the token, and the chosen tenant, if any."""

    def __init__(self, endpoints: tuple[str, ...], token: str, tenant: str = "", ca_file: str = "") -> None:
        self.endpoints = endpoints
        self.token = token
        self.tenant = tenant
        self.ca_file = ca_file


def quick_place(variables: dict[str, str]) -> Place | None:
    """None if that takes more than reading a few files."""
    filed = _filed(variables)
    if filed is None:
        return None
    tenant = variables.get("LATTICE_TENANT") or filed.get("tenant", "")
    url = variables.get("LATTICE_API_URL") or variables.get("LATTICE_ENDPOINT") or filed.get("endpoint", "")
    token_file = variables.get("LATTICE_TOKEN_FILE") or filed.get("token_file", "")
    token = variables.get("LATTICE_TOKEN") or _content(token_file).strip()
    directory = _local_directory(variables)
    local = _local_url(_content(f"{directory}/cluster.json")) if not (url and token) else ""
    if not token and not token_file and local and (not url or url.rstrip("/") == local):
        token = _content(f"{directory}/token").strip()
    endpoints = _endpoints(url or local)
    if not token or not endpoints or not token.isascii():
        return None
    if not all(text.startswith(("http://", "unix:///")) for text in endpoints):
        return None
    if not (is_asked_for(variables) or all(map(_stays_here, endpoints))):
        return None  # the library refuses it with its own message
    return Place(endpoints, token, tenant)


def is_asked_for(variables: dict[str, str]) -> bool:
    """Whether the user allows plain http to other machines."""
    return variables.get("LATTICE_INSECURE_HTTP", "").lower() in ("1", "true", "yes")


def _stays_here(endpoint: str) -> bool:
    """Whether the request does not cross the network in clear text."""
    host = endpoint.removeprefix("http://").partition("/")[0]
    host = "[::1]" if host.startswith("[::1]:") else host.partition(":")[0]
    is_number = host.startswith("127.") and not host.strip("0123456789.")
    return endpoint.startswith("unix:") or host in ("localhost", "[::1]") or is_number


def _filed(variables: dict[str, str]) -> dict[str, str] | None:
    """The values of simple configuration files, the user's over the site's; None where one needs the full parser."""
    if variables.get("LATTICE_CONFIG"):
        return None
    folder = variables.get("XDG_CONFIG_HOME") or f"{variables.get('HOME', '')}/.config"
    of_site, of_user = _lines(SITE_FILE), _lines(f"{folder}/lattice/config.yaml")
    return None if of_site is None or of_user is None else {**of_site, **of_user}


def _lines(path: str) -> dict[str, str] | None:
    found = {}
    for line in _content(path).splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        key, colon, value = line.partition(": ")
        value = value.strip()
        if not colon or not value or value[0] in "\"'[{&*|>!%@`#?-" or " #" in value:
            return None
        if key in _KEYS or key == "token_file":
            found[_KEYS.get(key, key)] = value
        elif key not in _IGNORED:
            return None
    return found


def _local_directory(variables: dict[str, str]) -> str:
    if chosen := variables.get("LATTICE_DIR"):
        return chosen
    state = variables.get("XDG_STATE_HOME") or f"{variables.get('HOME', '')}/.local/state"
    return f"{state}/lattice/local"


def _local_url(text: str) -> str:
    """The address in a cluster.json, without reading the rest of it."""
    at = text.find(_URL)
    start = text.find('"', at + len(_URL)) + 1
    return scanstring(text, start)[0].rstrip("/") if at >= 0 and start > 0 else ""


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
