"""Builds what a release consists of into dist/: both wheels, a list of their components, and checksums.

python tools/dist.py [FOLDER]

The result depends on the sources and constraints.txt alone, not on the folder, the time, the umask or the user.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
SOURCES = (ROOT, ROOT / "sdk")
LINUX = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}


def build(target: Path) -> list[Path]:
    """Both wheels."""
    for source in SOURCES:
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
        subprocess.run(command, cwd=source, check=True, stdout=subprocess.DEVNULL, env=_environment())
    return sorted(target.glob("*.whl"))


def _environment() -> dict[str, str]:
    """Without a date of the caller's: hatchling then takes a constant."""
    return {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}


def components() -> list[dict[str, object]]:
    """What the wheels need at run time with all their extras, as pinned, in CycloneDX's form."""
    pinned = dict(re.findall(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    found: dict[str, dict[str, object]] = {}
    seen: set[tuple[str, frozenset[str]]] = set()  # two components may want another with different extras
    waiting = [each for each in map(Requirement, _declared()) if applies(each, "")]
    while waiting:
        wanted = waiting.pop()
        name = normal(wanted.name)
        if (name, frozenset(wanted.extras)) in seen or name.startswith("lattice-hpc"):
            continue
        seen.add((name, frozenset(wanted.extras)))
        try:
            known = distribution(name)
        except PackageNotFoundError:
            raise SystemExit(f"dist: {name} is not installed; run make venv") from None
        number = pinned.get(name, known.version)
        found[name] = {
            "type": "library",
            "name": name,
            "version": number,
            "purl": f"pkg:pypi/{name}@{number}",
            "licenses": [{"license": {"name": _license(known)}}],
        }
        waiting += [each for each in map(Requirement, known.requires or ()) if applies(each, "", *wanted.extras)]
    return [found[name] for name in sorted(found)] + _browser_libraries()


def _browser_libraries() -> list[dict[str, object]]:
    """Those of the web page, which the wheel contains. Raises SystemExit while they are not there."""
    folder = ROOT / "src/lattice/web"
    if not (folder / "vendor/.complete").exists():
        raise SystemExit("dist: the libraries of the web page are missing; run make web")
    pins = tomllib.loads((folder / "libraries.toml").read_text())
    return [
        {
            "type": "library",
            "name": name,
            "version": pin["version"],
            "purl": f"pkg:npm/{name.replace('@', '%40')}@{pin['version']}",
            "licenses": [{"license": {"id": pin["license"]}}],
        }
        for name, pin in sorted(pins.items())
    ]


def _declared() -> Iterator[str]:
    for source in SOURCES:
        project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
        yield from project["dependencies"]
        for extra in set(project["optional-dependencies"]) - {"dev"}:
            yield from project["optional-dependencies"][extra]


def applies(wanted: Requirement, *extras: str) -> bool:
    return wanted.marker is None or any(wanted.marker.evaluate({**LINUX, "extra": extra}) for extra in extras or ("",))


def closure(known: dict[str, Distribution], extras: tuple[str, ...]) -> set[str]:
    """Names of all that Lattice needs with these extras, itself included."""
    found: set[str] = set()
    waiting = [Requirement(f"lattice-hpc[{','.join(extras)}]" if extras else "lattice-hpc")]
    while waiting:
        wanted = waiting.pop()
        name = normal(wanted.name)
        if name not in known or (name in found and not wanted.extras):
            continue
        found.add(name)
        needs = map(Requirement, known[name].requires or ())
        waiting += [each for each in needs if applies(each, "", *wanted.extras)]
    return found


def pinned_lines(wanted: set[str]) -> str:
    """The lines of constraints.txt about these components, with their hashes."""
    kept, is_kept = [], False
    for line in (ROOT / "constraints.txt").read_text().splitlines(keepends=True):
        if not line.startswith((" ", "#")):
            is_kept = normal(line.partition("==")[0]) in wanted
        if is_kept:
            kept.append(line)
    return "".join(kept)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _license(known: Distribution) -> str:
    told = next((text for name in ("License-Expression", "License") for text in known.metadata.get_all(name) or ()), "")
    classes = [
        line.rsplit("::", 1)[-1].strip() for line in known.metadata.get_all("Classifier") or () if "License ::" in line
    ]
    return told if told and len(told) <= 60 else ", ".join(classes) or "unknown"


def bill_of_materials(number: str) -> str:
    about = {"type": "application", "name": "lattice-hpc", "version": number}
    content = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {**about, "licenses": [{"license": {"id": "Apache-2.0"}}]}},
        "components": components(),
    }
    return json.dumps(content, indent=1) + "\n"


def version() -> str:
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def main(folder: str = "dist") -> None:
    number = version()
    target = (ROOT / folder).absolute()
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    build(target)
    (target / f"lattice-hpc-{number}.cdx.json").write_text(bill_of_materials(number))
    print(write_sums(target), end="")


def write_sums(target: Path) -> str:
    """Checksums of all that lies in the folder."""
    files = sorted(path for path in target.iterdir() if path.is_file() and path.name != "SHA256SUMS")
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    (target / "SHA256SUMS").write_text(sums)
    return sums


if __name__ == "__main__":
    main(*sys.argv[1:])
