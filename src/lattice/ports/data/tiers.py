"""Which data a site lets users name, as its configuration says."""

from collections.abc import Callable, Mapping

from msgspec import Struct


class WarmTier(Struct, frozen=True, kw_only=True):
    """A place that data may come from: `file:///PATH` or `s3://BUCKET`; without `tenants` everybody's.

    `is_cold`: an archive, from which data is copied alone. `is_writable`: results may go there.
    """

    url: str
    tenants: tuple[str, ...] = ()
    is_cold: bool = False
    is_writable: bool = True


class DataTiers(Struct, frozen=True, kw_only=True):
    """`has_hot`: whether copies can be made. `why_unreadable` says why an account may not read a file:// source, as far as this
    server can see; empty when it may, or when that is found out later."""

    has_hot: bool = False
    exports: Mapping[
        str, tuple[str, ...]
    ] = {}  # what users name as nfs://NAME/path, and whose they are; empty = everybody's
    warm: tuple[WarmTier, ...] = ()
    targets: tuple[str, ...] = ()
    output: str = ""  # where results go of work that does not say it, with {tenant}, {project}, {user}, {id} and {node}
    why_unreadable: Callable[[str, str], str] = lambda source, account: ""


NO_TIERS = DataTiers()
