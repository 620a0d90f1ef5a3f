"""Where a program finds its cluster: variables, then the configuration files, then the cluster on this machine.

The command line looks in the same places (`lattice.cli.config`), after its flags.
"""

import os
from collections.abc import Callable, Mapping
from typing import TypedDict, TypeVar

from lattice_sdk.errors import NotConfigured
from lattice_sdk.site.configuration import read_files, user_file
from lattice_sdk.site.local_cluster import TOKEN_FILE, directory_text, may_answer, read_cluster
from lattice_sdk.transport import SAYS_YES

HINT = "set LATTICE_API_URL, write `endpoint:` into ~/.config/lattice/config.yaml, or start a cluster with `lattice up`"

C = TypeVar("C")


class Site(TypedDict):
    """What was found, in the words of a client's constructor."""

    token: str | None
    token_file: str | None
    tenant: str
    ca_file: str | None
    insecure_http: bool


def find_site(environment: Mapping[str, str]) -> tuple[str, Site]:
    """Addresses and how to speak to them. Raises NotConfigured when there is no cluster, or a file is damaged."""
    file = read_files(user_file(environment), lambda _text: None, is_demanded=bool(environment.get("LATTICE_CONFIG")))

    def said(variable: str, key: str) -> str:
        return environment.get(variable) or file.get(key, "")

    named = environment.get("LATTICE_API_URL") or said("LATTICE_ENDPOINT", "endpoint")
    local = find_local(environment)
    url = named or (local[0] if local else "")
    if not url:
        raise NotConfigured("no cluster is configured, and none is running on this machine", hint=HINT)
    token = environment.get("LATTICE_TOKEN") or None
    path = said("LATTICE_TOKEN_FILE", "token_file")
    if token is None and not path and local and local[0] == url.rstrip("/"):
        path = local[1]
    return url, Site(
        token=token,
        token_file=None if token else path or None,
        tenant=said("LATTICE_TENANT", "tenant"),
        ca_file=said("LATTICE_CA_FILE", "ca_file") or None,
        insecure_http=said("LATTICE_INSECURE_HTTP", "insecure_http").lower() in SAYS_YES,
    )


def open_found(make: Callable[..., C], environment: Mapping[str, str]) -> C:
    """A client for what was found. Raises NotConfigured, also for an address that is none."""
    url, site = find_site(environment)
    try:
        return make(url, **site)
    except ValueError as error:
        raise NotConfigured(f"{url}: {error}") from None


def find_local(environment: Mapping[str, str]) -> tuple[str, str] | None:
    """The address of the cluster that `lattice up` started on this machine, and its token file."""
    directory = directory_text(environment)
    cluster = read_cluster(directory)
    if cluster is None or not cluster.api_url or not may_answer(cluster):
        return None
    return cluster.api_url, os.path.join(directory, TOKEN_FILE)
