"""Where the cluster is and what the user prefers: flags, then variables, then the configuration files of the user and
of the site, then the cluster on this machine."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from lattice.cli.errors import LOGIN_HINT, NOT_PERMITTED, START_HINT, UNREACHABLE, CommandError, UsageError
from lattice.cli.flags import FORMATS, Flags
from lattice_sdk.errors import NotConfigured
from lattice_sdk.site.configuration import read_files, user_file
from lattice_sdk.site.local_cluster import USERS_DIRECTORY, directory_text
from lattice_sdk.site.place import find_local
from lattice_sdk.token_cache import TokenCache, cache_path
from lattice_sdk.transport import SAYS_YES


class Place(Struct, frozen=True, kw_only=True):
    """A cluster's address, what to identify oneself with, and who said so."""

    api_url: str
    origin: str
    token: str | None = None
    token_file: str | None = None


class Settings(Struct, frozen=True, kw_only=True):
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
    def default_uenv(self) -> str:
        """Images of work that names none."""
        return self._filed("default_uenv")

    @property
    def project(self) -> str:
        return self.environment.get("LATTICE_PROJECT") or self._filed("project")

    @property
    def export(self) -> str:
        """Which variables submissions take along, unless a flag says so."""
        return self._filed("export") or "NONE"

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
        found = find_local(self.environment)
        return (found[0], directory_text(self.environment), found[1]) if found else None

    def _with_token(self, found: tuple[str, str, str]) -> Place:
        url, origin, own_token_file = found
        place = Place(api_url=url, origin=origin)
        if self.flags.as_user:
            return _placed(place, token_file=self._token_of_user(url, self.flags.as_user))
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

    def _token_of_user(self, url: str, user: str) -> str:
        """The token file of another user of the local cluster."""
        import os

        own = self._token_of_same_place(url)
        if not own:
            raise UsageError("--as works only with the cluster on this machine", hint="see `lattice up --users`")
        folder = os.path.join(os.path.dirname(own), USERS_DIRECTORY)
        known = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        if user not in known:
            hint = f"one of: {', '.join(known)}" if known else f"start it with `lattice up --users {user}`"
            raise UsageError(f'the local cluster has no user "{user}"', hint=hint)
        return os.path.join(folder, user)

    def _has_login(self, url: str) -> bool:
        try:
            return self.logins(self.note).find(url) is not None
        except ValueError:
            return True  # the connection attempt reports what is wrong with the address

    def _token_of_same_place(self, url: str) -> str:
        """The local cluster's token, but only for the local cluster's own address."""
        local = self._local_place()
        return local[2] if local is not None and local[0] == url.rstrip("/") else ""


def _placed(place: Place, *, token: str | None = None, token_file: str | None = None) -> Place:
    return Place(api_url=place.api_url, origin=place.origin, token=token, token_file=token_file)


def load_settings(flags: Flags, environment: Mapping[str, str], note: Callable[[str], None]) -> Settings:
    """Settings from flags, variables and the configuration files; UsageError when a file is damaged."""
    path = flags.config or user_file(environment)
    is_demanded = flags.config is not None or bool(environment.get("LATTICE_CONFIG"))
    try:
        file = read_files(path, note, is_demanded=is_demanded)
    except NotConfigured as error:
        raise UsageError(str(error), hint=error.hint) from None
    if (chosen := file.get("output_format", "table")) not in FORMATS:
        raise UsageError(f'{path}: "output_format" must be one of {", ".join(FORMATS)}, not "{chosen}"')
    return Settings(flags=flags, environment=environment, file=file, file_path=path, note=note)
