"""Container images for tests: OCI layouts of a few files, with busybox for programs."""

import gzip
import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

APPLETS = (
    "sh",
    "cat",
    "echo",
    "env",
    "grep",
    "id",
    "ls",
    "mkdir",
    "mount",
    "pwd",
    "sleep",
    "test",
    "touch",
    "true",
    "unshare",
)
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
CONFIG = "application/vnd.oci.image.config.v1+json"

Entry = tuple[str, bytes | str | None]  # a file's content, "-> TARGET" for a link, None for a directory


def layer(entries: Iterable[Entry], special: Sequence[tarfile.TarInfo] = ()) -> bytes:
    """A layer with these entries, files being executable; `special` as they are."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in entries:
            info = tarfile.TarInfo(name)
            info.mode = 0o755
            if content is None:
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
            elif isinstance(content, str):
                info.type = tarfile.LNKTYPE if content.startswith("=> ") else tarfile.SYMTYPE
                info.linkname = content[3:]
                archive.addfile(info)
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        for info in special:
            archive.addfile(info)
    return gzip.compress(data.getvalue(), 1)


def busybox_layer() -> bytes:
    program = Path(shutil.which("busybox") or "/bin/busybox").read_bytes()
    entries: list[Entry] = [("bin", None), ("bin/busybox", program), ("etc", None), ("usr", None)]
    entries += [(f"bin/{name}", "-> busybox") for name in APPLETS]
    entries.append(("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n"))
    entries.append(("etc/os-release", b"ID=tiny\n"))
    return layer(entries)


def make_layout(
    folder: Path,
    layers: Sequence[bytes],
    tag: str = "v1",
    env: Mapping[str, str] = {},
    workdir: str = "",
    layer_type: str = LAYER,
) -> str:
    """An OCI layout with one image; the digest of its manifest."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)

    def blob(data: bytes, media_type: str) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    config = {"architecture": "amd64", "os": "linux", "config": {"Env": [f"{k}={v}" for k, v in env.items()]}}
    if workdir:
        config["config"]["WorkingDir"] = workdir  # type: ignore[index]
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": blob(json.dumps(config).encode(), CONFIG),
        "layers": [blob(each, layer_type) for each in layers],
    }
    described = blob(json.dumps(manifest).encode(), MANIFEST)
    described["annotations"] = {"org.opencontainers.image.ref.name": tag}
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [described]}))
    return str(described["digest"]).removeprefix("sha256:")
