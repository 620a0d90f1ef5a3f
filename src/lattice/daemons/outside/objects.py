"""The object store of a server's configuration: a directory, or a bucket of an S3 service."""

import asyncio
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from lattice.config.load import ConfigError
from lattice.config.redaction import is_reference
from lattice.config.schema import ServerConfig
from lattice.config.secrets import resolve
from lattice.config.sections.keeping import ObjectStoreSection
from lattice.daemons.outside.vaults import vault_of
from lattice.integrations.directory.store import DirectoryStore
from lattice.ports.quorum.object_store import ObjectStore, ObjectStoreError
from lattice.ports.site.retention import LogRetention

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_ONLY_WITH_A_BUCKET = ("endpoint", "key_id", "key_secret", "ca_file", "tenants")


def has_shared_store(config: ServerConfig) -> bool:
    """Whether a store is configured that other servers see, too."""
    return bool(config.object_store.directory or config.object_store.bucket)


def object_store_of(config: ServerConfig) -> ObjectStore:
    """The configured store, else the folder `objects` in the data directory. Connects to nothing. Raises ConfigError, SecretError."""
    section = config.object_store
    if not section.bucket:
        for key in _ONLY_WITH_A_BUCKET:
            if getattr(section, key):
                raise ConfigError(f"object_store.{key} needs object_store.bucket")
        return DirectoryStore(Path(section.directory or Path(config.data_dir) / "objects"))
    if section.directory:
        raise ConfigError("object_store: give either `directory` or `bucket`")
    _check_buckets(section)
    if section.endpoint and not section.endpoint.startswith(("https://", "http://")):
        raise ConfigError("object_store.endpoint: give an address that begins with https://")
    if config.mode == "production" and section.endpoint.startswith("http://"):
        raise ConfigError("object_store.endpoint: must be https in production")
    try:
        from lattice.integrations.s3.bucket import Bucket
        from lattice.integrations.s3.store import BucketStore
        from lattice.integrations.s3.tenants import TenantBuckets
    except ImportError as error:
        raise ConfigError(f"object_store.bucket: {error.name} is not installed; install lattice-hpc[s3]") from error
    common = Bucket(
        name=section.bucket,
        endpoint=section.endpoint,
        region=section.region,
        key_id=_key_id(config),
        key_secret=_resolved(config, "key_secret"),
        timeout_s=section.timeout,
        authorities=_authorities(section.ca_file),
    )
    if not section.tenants:
        return BucketStore(common)
    own = {tenant: BucketStore(replace(common, name=name)) for tenant, name in section.tenants.items()}
    return TenantBuckets(BucketStore(common), own)


def _check_buckets(section: ObjectStoreSection) -> None:
    """Raises ConfigError for what is no name of a bucket, and for a bucket of a tenant that another one shares."""
    owners = {section.bucket: "object_store.bucket"}
    if not _BUCKET.fullmatch(section.bucket):
        raise ConfigError(f"object_store.bucket: {section.bucket!r} is not the name of a bucket")
    for tenant, name in section.tenants.items():
        key = f"object_store.tenants.{tenant}"
        if not _BUCKET.fullmatch(name):
            raise ConfigError(f"{key}: {name!r} is not the name of a bucket")
        if name in owners:
            raise ConfigError(f"{key}: {name!r} is the bucket of {owners[name]} already")
        owners[name] = key


def log_retention(config: ServerConfig) -> LogRetention:
    """How long output is kept."""
    section = config.logs
    return LogRetention(
        default_s=section.retention,
        tenants=section.tenants,
        vclusters=section.vclusters,
        checkpoints_s=config.retention.checkpoints,
        traces_s=config.retention.traces,
        telemetry_s=config.retention.telemetry,
        access_s=config.retention.access,
    )


def _key_id(config: ServerConfig) -> str:
    """Not a secret by itself, so it may stand in the file."""
    given = config.object_store.key_id
    return given if given and not is_reference(given) else _resolved(config, "key_id")


def _resolved(config: ServerConfig, key: str) -> str:
    reference: str = getattr(config.object_store, key)
    return resolve(reference, key=f"object_store.{key}", mode=config.mode, vault=vault_of(config)).decode()


def _authorities(path: str) -> bytes:
    try:
        return Path(path).read_bytes() if path else b""
    except OSError as error:
        raise ConfigError(f"object_store.ca_file: cannot read {path}: {error.strerror}") from error


def store_outcomes(config: ServerConfig) -> Iterator[tuple[str, str]]:
    """The shared store, and each bucket of a tenant: why it cannot be used from here, or an empty text."""
    section = config.object_store
    yield f"object store {section.directory or f'bucket {section.bucket}'}", store_outcome(config)
    for tenant, name in section.tenants.items():
        alone = replace(config, object_store=replace(section, bucket=name, tenants={}))
        yield f"object store bucket {name} of tenant {tenant}", store_outcome(alone)


def store_outcome(config: ServerConfig) -> str:
    """Why the shared store cannot be used from here; empty where an object could be stored, read and deleted."""
    section = config.object_store
    if section.directory:
        directory = Path(section.directory)
        existing = next(path for path in (directory, *directory.absolute().parents) if path.exists())
        is_usable = existing.is_dir() and os.access(existing, os.R_OK | os.W_OK | os.X_OK)
        return "" if is_usable else f"this user may not write to {existing}"
    return asyncio.run(_tried(object_store_of(config)))


async def _tried(store: ObjectStore) -> str:
    name, data = f"check/{secrets.token_hex(8)}", b"lattice"
    try:
        await store.put(name, data)
        read = await store.get(name)
        await store.delete(name)
    except ObjectStoreError as error:
        return str(error)
    return "" if read == data else "what is read is not what was stored"
