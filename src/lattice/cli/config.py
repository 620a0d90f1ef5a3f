"""Where the cluster is and what the user prefers: flags, then variables, then the configuration
file, then the cluster on this machine."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lattice.cli.errors import LOGIN_HINT, NOT_PERMITTED, START_HINT, UNREACHABLE, CommandError, UsageError
from lattice.cli.flags import FORMATS, Flags
from lattice.cli.local_cluster import TOKEN_FILE, ClusterFile, ClusterProcess, directory_text, read_cluster
from lattice_sdk.token_cache import TokenCache, cache_path
from lattice_sdk.transport import SAYS_YES

# Keys of the configuration file; the second spelling of a pair means the same.
ALIASES = {
    "api_url": "endpoint",
    "default_tenant": "tenant",
    "default_vcluster": "vcluster",
    "default_project": "project",
}
KEYS = frozenset(
    {
        *("endpoint", "tenant", "vcluster", "project", "output_format", "color"),
        *("token_file", "ca_file", "insecure_http"),
    }
)
NOT_YET = frozenset({"default_uenv"})


@dataclass(frozen=True, kw_only=True)
class Place:
    """A cluster's address, what to identify oneself with, and who said so."""

    api_url: str
    origin: str
    token: str | None = None
    token_file: str | None = None


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The outcome: defaults for submissions, output, and how to find the cluster."""

    flags: Flags
    environment: Mapping[str, str]
    file: Mapping[str, str]
    file_path: str
    note: Callable[[str], None] = lambda _text: None

    @property
    def tenant(self) -> str:
        return self.flags.tenant or self.environment.get("LATTICE_TENANT") or self._filed("tenant")

    @property
    def vcluster(self) -> str:
        return self.flags.vcluster or self.environment.get("LATTICE_VCLUSTER") or self._filed("vcluster")

    @property
    def project(self) -> str:
        return self.environment.get("LATTICE_PROJECT") or self._filed("project")

    @property
    def output_format(self) -> str:
        return self._filed("output_format") or "table"

    @property
    def is_coloured(self) -> bool:
        return self._filed("color").lower() not in {"false", "no", "never", "off"}

    @property
    def ca_file(self) -> str:
        """Whom to trust with https; empty = the system's authorities."""
        return self.flags.ca_file or self.environment.get("LATTICE_CA_FILE") or self._filed("ca_file")

    @property
    def insecure_http(self) -> bool:
        """Whether the user allows plain http to other machines."""
        said = (self.environment.get("LATTICE_INSECURE_HTTP", ""), self._filed("insecure_http"))
        return self.flags.insecure_http or any(text.lower() in SAYS_YES for text in said)

    def place(self) -> Place:
        """The cluster to talk to; CommandError when none is configured, or there is no login."""
        return self._with_token(self._found_place())

    def address(self) -> str:
        """The cluster's address, logged in or not; CommandError when none is configured."""
        return self._found_place()[0]

    def logins(self, warn: Callable[[str], None]) -> TokenCache:
        """Where logins are kept."""
        return TokenCache(cache_path(self.environment), warn)

    def _found_place(self) -> tuple[str, str, str]:
        found = self._named_place() or self._local_place()
        if found is None:
            raise CommandError(
                "no cluster is configured, and none is running on this machine",
                hint=START_HINT,
                exit_code=UNREACHABLE,
            )
        return found

    def _filed(self, key: str) -> str:
        return self.file.get(key, "")

    def _named_place(self) -> tuple[str, str, str] | None:
        sources = (
            (self.flags.api_url, "--api-url"),
            (self.environment.get("LATTICE_API_URL"), "LATTICE_API_URL"),
            (self.environment.get("LATTICE_ENDPOINT"), "LATTICE_ENDPOINT"),
            (self._filed("endpoint"), self.file_path),
        )
        for url, origin in sources:
            if url:
                return url, origin, ""
        return None

    def _local_place(self) -> tuple[str, str, str] | None:
        directory = directory_text(self.environment)
        cluster = read_cluster(directory)
        if cluster is None or not cluster.api_url or not _may_answer(cluster):
            return None
        return cluster.api_url, directory, os.path.join(directory, TOKEN_FILE)

    def _with_token(self, found: tuple[str, str, str]) -> Place:
        url, origin, own_token_file = found
        place = Place(api_url=url, origin=origin)
        if self.flags.token_file:
            return _placed(place, token_file=self.flags.token_file)
        if token := self.environment.get("LATTICE_TOKEN"):
            return _placed(place, token=token)
        named = self.environment.get("LATTICE_TOKEN_FILE") or self._filed("token_file")
        path = named or own_token_file or self._token_of_same_place(url)
        if path:
            return _placed(place, token_file=path)
        if url.startswith("unix:") or self._has_login(url):  # local users may read some things without a token
            return place
        raise CommandError(f"not logged in: no token for {url}", hint=LOGIN_HINT, exit_code=NOT_PERMITTED)

    def _has_login(self, url: str) -> bool:
        try:
            return self.logins(self.note).find(url) is not None
        except ValueError:
            return True  # the connection attempt reports what is wrong with the address

    def _token_of_same_place(self, url: str) -> str:
        """The local cluster's token, but only for the local cluster's own address."""
        local = self._local_place()
        return local[2] if local is not None and local[0] == url.rstrip("/") else ""


def _may_answer(cluster: ClusterFile) -> bool:
    """Whether a server runs, or a supervisor that would restart it; the file may outlive both."""
    awaited = [process for process in cluster.processes if process.role in {"supervisor", "server"}]
    return not awaited or any(map(_is_running, awaited))


def _is_running(process: ClusterProcess) -> bool:
    try:
        with open(f"/proc/{process.pid}/stat", "rb") as file:
            figures = file.read().rpartition(b")")[2].split()
    except OSError:
        return False
    state, started = figures[0], int(figures[19])
    return state not in {b"Z", b"X"} and process.started in {0, started}


def _placed(place: Place, *, token: str | None = None, token_file: str | None = None) -> Place:
    return Place(api_url=place.api_url, origin=place.origin, token=token, token_file=token_file)


def load_settings(flags: Flags, environment: Mapping[str, str], note: Callable[[str], None]) -> Settings:
    """Settings from flags, variables and the configuration file; UsageError when the file is damaged."""
    path = flags.config or environment.get("LATTICE_CONFIG") or _default_path(environment)
    is_demanded = flags.config is not None or bool(environment.get("LATTICE_CONFIG"))
    file = _read_file(path, note, is_demanded=is_demanded)
    return Settings(flags=flags, environment=environment, file=file, file_path=path, note=note)


def _default_path(environment: Mapping[str, str]) -> str:
    home = environment.get("HOME") or os.path.expanduser("~")
    folder = environment.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    return os.path.join(folder, "lattice", "config.yaml")


def _read_file(path: str, note: Callable[[str], None], *, is_demanded: bool) -> dict[str, str]:
    try:
        with open(path, "rb") as file:
            data = file.read(1 << 20)
    except (FileNotFoundError, NotADirectoryError):
        if is_demanded:
            raise UsageError(f"there is no configuration file {path}") from None
        return {}
    except OSError as error:
        raise UsageError(f"cannot read the configuration file {path}: {error.strerror}") from None
    return _parsed(path, data, note)


def _parsed(path: str, data: bytes, note: Callable[[str], None]) -> dict[str, str]:
    import yaml

    try:
        tree = yaml.safe_load(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}, line {line}: the file is not UTF-8") from None
    except yaml.YAMLError as error:
        raise UsageError(f"{path}{_where(error)}") from None
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise UsageError(f"{path}, line 1, column 1: expected lines of the form `endpoint: ...`")
    return {name: text for key, value in tree.items() for name, text in _entry(path, key, value, note)}


def _where(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "not valid YAML"
    place = f", line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
    return f"{place}: {problem}"


def _entry(path: str, key: object, value: object, note: Callable[[str], None]) -> list[tuple[str, str]]:
    name = ALIASES.get(str(key), str(key))
    if name in NOT_YET:
        raise UsageError(f'{path}: "{name}" is not supported by this version of Lattice', hint="take the line out")
    if name not in KEYS:
        note(f'{path}: "{key}" is not a known key')
        return []
    if name == "endpoint" and isinstance(value, list):
        value = ",".join(map(str, value))
    if value is None:
        return []
    if isinstance(value, dict | list):
        raise UsageError(f'{path}: "{key}" must be a single value')
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if name == "output_format" and text not in FORMATS:
        raise UsageError(f'{path}: "{key}" must be one of {", ".join(FORMATS)}')
    return [(name, text)]
