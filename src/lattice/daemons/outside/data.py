"""The tiers of a server's configuration: what users may name, and what the loop that brings data has to know."""

import os
import pwd
import stat

from lattice.config.load import ConfigError
from lattice.config.schema import ServerConfig
from lattice.control.data.order import Watermarks
from lattice.control.data.staging import StagingSettings
from lattice.ports.data.tiers import DataTiers, WarmTier

FILE = "file://"


def data_tiers(config: ServerConfig) -> DataTiers:
    """Raises ConfigError."""
    tiers = config.data.tiers
    for place, tier in enumerate(tiers.warm):
        if tier.url.startswith("s3://") and "/" in tier.url.removeprefix("s3://"):
            raise ConfigError(f"data.tiers.warm[{place}].url: name the bucket alone, as in s3://BUCKET")
        if tier.url.startswith(FILE) and os.path.normpath(tier.url[len(FILE) :]) != tier.url[len(FILE) :]:
            raise ConfigError(f"data.tiers.warm[{place}].url: write the path out, without / at its end")
        is_folder = tier.url.startswith(FILE)
        if is_folder and tiers.hot.directory and _contains(tier.url[len(FILE) :], tiers.hot.directory):
            raise ConfigError("data.tiers.hot.directory: lies in a warm tier, where users could name copies of others")
    roots = tuple(tier.url.removeprefix(FILE) for tier in tiers.warm if tier.url.startswith(FILE))
    return DataTiers(
        has_hot=bool(tiers.hot.directory),
        warm=tuple(WarmTier(url=tier.url, tenants=tuple(tier.tenants)) for tier in tiers.warm),
        targets=tuple(config.data.targets),
        why_unreadable=lambda source, account: _why_unreadable(roots, source.removeprefix(FILE), account),
    )


def _contains(folder: str, path: str) -> bool:
    """Also the other way round: a source in the hot tier would be a way around its rights."""
    ours, theirs = f"{os.path.realpath(folder)}/", f"{os.path.realpath(path)}/"
    return ours.startswith(theirs) or theirs.startswith(ours)


def staging_settings(config: ServerConfig) -> StagingSettings:
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
