"""Images for tests, made as a site would make them."""

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MOUNT = "/user-environment"


def make_image(path: Path, files: Mapping[str, str], metadata: Mapping[str, Any] | None) -> str:
    """A squashfs image with these files, all executable; its digest."""
    folder = Path(tempfile.mkdtemp(prefix="lattice-image-"))
    try:
        contents = dict(files)
        if metadata is not None:
            contents["meta/env.json"] = json.dumps(metadata)
        for name, text in contents.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        folder.chmod(0o755)
        path.parent.mkdir(parents=True, exist_ok=True)
        command = ["mksquashfs", str(folder), str(path), "-noappend", "-quiet", "-no-progress", "-all-root"]
        subprocess.run(command, check=True, capture_output=True)
    finally:
        shutil.rmtree(folder)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def view(*, prepend: Mapping[str, str] = {}, scalar: Mapping[str, str | None] = {}) -> dict[str, Any]:
    """A view as published images have it."""
    lists = {name: [{"op": "prepend", "value": [value]}] for name, value in prepend.items()}
    return {"env": {"values": {"list": lists, "scalar": dict(scalar)}}}


GREET = "#!/bin/sh\necho hello from $GREETING\n"
GREETER = {
    "mount": MOUNT,
    "views": {
        "default": view(prepend={"PATH": f"{MOUNT}/bin"}, scalar={"GREETING": "default"}),
        "other": view(prepend={"PATH": f"{MOUNT}/bin"}, scalar={"GREETING": "other", "HOME_THEN": "${@HOME@}/x"}),
    },
}


def make_greeter(path: Path) -> str:
    """An image with the program `greet` and the views `default` and `other`."""
    return make_image(path, {"bin/greet": GREET}, GREETER)
