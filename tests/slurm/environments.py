"""Virtual environments of the programs that call the Slurm commands: pinned, hashed, kept between runs."""

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

from tests.architecture.tree import ROOT
from tests.conftest import missing

PINS = ROOT / "tests" / "tools"
CACHE = ROOT / ".cache" / "tools"
ENOUGH_S = 300


def tool_python(name: str) -> Path:
    """Python of the environment with what tests/tools/NAME.txt pins, made on first use."""
    pins = PINS / f"{name}.txt"
    mark = hashlib.sha256(pins.read_bytes() + sys.version.encode()).hexdigest()[:16]
    folder = CACHE / f"{name}-{mark}"
    python = folder / "bin" / "python"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            _make(folder, pins)
            (folder / "complete").touch()
    return python


def _make(folder: Path, pins: Path) -> None:
    _run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(folder)], pins.stem)
    uv = str(Path(sys.executable).with_name("uv"))
    python = str(folder / "bin" / "python")
    _run([uv, "pip", "install", "--quiet", "--python", python, "--require-hashes", "-r", str(pins)], pins.stem)


def _run(words: list[str], name: str) -> None:
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=ENOUGH_S, check=False, env=_settings_for_uv()
        )
    except subprocess.TimeoutExpired:
        missing(f"{name} (the package index did not hand it over within {ENOUGH_S} s)")
    if done.returncode != 0:
        missing(f"{name} (not in {CACHE}, and the package index did not hand it over: {done.stderr.strip()[-600:]})")


def _settings_for_uv() -> dict[str, str]:
    """uv does not read pip's variables; an index or certificate that is set for pip is handed on."""
    handed = dict(os.environ)
    for theirs, ours in (("PIP_INDEX_URL", "UV_DEFAULT_INDEX"), ("PIP_CERT", "SSL_CERT_FILE")):
        if theirs in handed:
            handed.setdefault(ours, handed[theirs])
    return handed
