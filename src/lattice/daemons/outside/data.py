"""The tiers of a server's configuration: what users may name, and what the loop that brings data has to know."""

import os
import pwd
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lattice.config.load import ConfigError
from lattice.config.schema import ServerConfig
from lattice.config.sections.data import ColdTierSection, ExportSection, WarmTierSection
from lattice.daemons.outside.tiers import FILE, S3, bucket_fields, tier_sections
from lattice.daemons.outside.vaults import vault_of
from lattice.ports.data.tiers import DataTiers, WarmTier
from lattice.wire.text.problems import BadField
from lattice.wire.work.data import read_output

if TYPE_CHECKING:
    from lattice.control.data.staging import StagingSettings
    from lattice.integrations.s3.bucket import Bucket
    from lattice.integrations.s3.results import ResultBuckets


def data_tiers(config: ServerConfig) -> DataTiers:
    """Raises ConfigError."""
    tiers = config.data.tiers
    urls = [tier.url for _, tier in tier_sections(config)]
    for key, tier in tier_sections(config):
        _check_tier(key, tier, tiers.hot.directory)
        if urls.count(tier.url) > 1:
            raise ConfigError(f"{key}.url: {tier.url} is named twice")
    roots = tuple(url.removeprefix(FILE) for url in urls if url.startswith(FILE))
    return DataTiers(
        has_hot=bool(tiers.hot.directory),
        warm=tuple(
            WarmTier(
                url=tier.url,
                tenants=tuple(tier.tenants),
                is_cold=isinstance(tier, ColdTierSection),
                is_writable=not isinstance(tier, ColdTierSection) and (tier.writable or tier.url.startswith(FILE)),
            )
            for _, tier in tier_sections(config)
        ),
        exports=_exports(config.data.exports),
        targets=tuple(config.data.targets),
        output=_output(config),
        why_unreadable=lambda source, account: _why_unreadable(roots, source.removeprefix(FILE), account),
    )


def _output(config: ServerConfig) -> str:
    """Only where results may go at all; whether those of a tenant may is asked for each submission."""
    output, key = config.data.output, "data.output"
    if not output:
        return ""
    try:
        read_output(output, {"tenant": "t", "project": "p", "user": "u"})
    except BadField as problem:
        raise ConfigError(f"{key}: {problem}") from None
    for _, tier in tier_sections(config):
        if output.startswith(tier.url.rstrip("/") + "/"):
            if isinstance(tier, ColdTierSection):
                raise ConfigError(f"{key}: {tier.url} is an archive: results do not go there")
            if tier.url.startswith(S3) and not tier.writable:
                raise ConfigError(f"{key}: results may not go to {tier.url}; that takes `writable: true` of the tier")
            return output
    raise ConfigError(f"{key}: {output} is in no tier of data.tiers.warm")


def _exports(sections: Sequence[ExportSection]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for place, each in enumerate(sections):
        key = f"data.exports[{place}]"
        if each.name in found:
            raise ConfigError(f"{key}.name: {each.name} is named twice")
        if not each.directory and not each.address:
            raise ConfigError(f"{key}: say where nodes have it (directory) or where it comes from (address)")
        if each.directory and (
            not each.directory.startswith("/") or os.path.normpath(each.directory) != each.directory
        ):
            raise ConfigError(f"{key}.directory: an absolute path without / at its end")
        found[each.name] = tuple(each.tenants)
    return found


def _check_tier(key: str, tier: WarmTierSection, hot: str) -> None:
    if tier.url.startswith(S3):
        if "/" in tier.url.removeprefix(S3):
            raise ConfigError(f"{key}.url: name the bucket alone, as in s3://BUCKET")
        return
    path = tier.url.removeprefix(FILE)
    if os.path.normpath(path) != path:
        raise ConfigError(f"{key}.url: write the path out, without / at its end")
    if hot and _contains(path, hot):
        raise ConfigError("data.tiers.hot.directory: lies in a warm tier, where users could name copies of others")
    if isinstance(tier, ColdTierSection) and not tier.recall:
        raise ConfigError(f"{key}.recall: a directory in an archive needs the program that brings files back")


def bucket_of(key: str, tier: WarmTierSection, mode: str, vault: Callable[[str], bytes] | None = None) -> "Bucket":
    """The bucket of a tier, with the key that opens it. Raises ConfigError and SecretError."""
    try:
        from lattice.integrations.s3.bucket import Bucket
    except ImportError as error:
        raise ConfigError(f"{key}: {error.name} is not installed; install lattice-hpc[s3]") from error
    try:
        authorities = Path(tier.ca_file).read_bytes() if tier.ca_file else b""
    except OSError as error:
        raise ConfigError(f"{key}.ca_file: cannot read {tier.ca_file}: {error.strerror}") from error
    return Bucket(
        name=tier.url.removeprefix(S3),
        endpoint=tier.endpoint,
        region=tier.region,
        timeout_s=tier.timeout,
        authorities=authorities,
        **bucket_fields(key, tier, mode, vault),
    )


def _contains(folder: str, path: str) -> bool:
    """Also the other way round: a source in the hot tier would be a way around its rights."""
    ours, theirs = f"{os.path.realpath(folder)}/", f"{os.path.realpath(path)}/"
    return ours.startswith(theirs) or theirs.startswith(ours)


def result_buckets(config: ServerConfig) -> "ResultBuckets | None":
    """The buckets that results may go to. Raises ConfigError and SecretError."""
    found = {
        tier.url.removeprefix(S3): bucket_of(key, tier, config.mode, vault_of(config))
        for key, tier in tier_sections(config)
        if tier.writable and tier.url.startswith(S3) and not isinstance(tier, ColdTierSection)
    }
    if not found:
        return None
    from lattice.integrations.s3.results import ResultBuckets

    return ResultBuckets(found)


def staging_settings(config: ServerConfig) -> "StagingSettings":
    # Nothing that decides is imported by the movers, which read the sections of tiers here too.
    from lattice.control.data.order import Watermarks
    from lattice.control.data.staging import StagingSettings

    hot = config.data.tiers.hot
    return StagingSettings(
        capacity=hot.size,
        bandwidth=float(hot.bandwidth),
        tenants=dict(hot.tenants),
        watermarks=Watermarks(high=hot.high, low=hot.low),
        silent_s=config.data.mover_timeout,
    )


def _why_unreadable(roots: tuple[str, ...], path: str, account: str) -> str:
    """What plain permissions say, where this server sees the tier; access lists, and everything else, are the mover's to judge."""
    if not any(os.path.isdir(root) for root in roots):
        return ""
    try:
        user = pwd.getpwnam(account)
    except KeyError:
        return ""
    if user.pw_uid == 0:
        return "" if os.path.lexists(path) else f"{path} does not exist"
    groups = set(os.getgrouplist(account, user.pw_gid))
    parts = [part for part in path.split("/") if part]
    place = ""
    for index, part in enumerate(parts):
        place = f"{place}/{part}"
        try:
            found = os.lstat(place)
        except FileNotFoundError:
            return f"{path} does not exist"
        except OSError:
            return ""
        is_folder = stat.S_ISDIR(found.st_mode)
        wanted = (5 if is_folder else 4) if index == len(parts) - 1 else 1
        shift = 6 if found.st_uid == user.pw_uid else 3 if found.st_gid in groups else 0
        if not stat.S_ISLNK(found.st_mode) and (found.st_mode >> shift) & wanted != wanted and not _has_acl(place):
            return f"{account} may not read {path}"
    return ""


def _has_acl(path: str) -> bool:
    try:
        return "system.posix_acl_access" in os.listxattr(path, follow_symlinks=False)
    except OSError:
        return False
