"""Builds lattice-cli, lattice-server and lattice-agent as Debian packages into dist/, from the wheels that `make dist` left there.

python tools/deb.py

The packages share one private environment, /opt/lattice, made of the components that constraints.txt pins by hash.
They are for the Python of this machine's distribution (/usr/bin/python3).
"""

import gzip
import os
import shutil
import subprocess
import sys
import textwrap
from importlib.metadata import Distribution, distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools import dist  # noqa: E402 - found by the line before, wherever this is started

DIST = ROOT / "dist"
PYTHON = "/usr/bin/python3"
PREFIX = Path("opt/lattice")
MAINTAINER = "Lattice maintainers <maintainers@lattice.example.org>"
EPOCH = "1580601600"  # as the wheels have it: the packages do not depend on the time either
# An environment with components of its own, below /opt, is what the packages are for; the components are as their authors built them.
EXPECTED = ("dir-or-file-in-opt", "embedded-library", "unstripped-binary-or-object", "library-not-linked-against-libc")
ABOUT = {
    "lattice-cli": "commands of the Lattice workload scheduler, and those of Slurm",
    "lattice-server": "server of the Lattice workload scheduler",
    "lattice-agent": "agent that runs the work of a node for the Lattice workload scheduler",
}
COMPLETIONS = {
    "bash": "bash-completion/completions/lattice",
    "zsh": "zsh/vendor-completions/_lattice",
    "fish": "fish/vendor_completions.d/lattice.fish",
}
UNITS = {"lattice-server": "lattice-server.service", "lattice-agent": "lattice-agent.service"}
SCRIPTS = {
    "lattice-cli": ("lattice",),
    "lattice-server": ("lattice-server", "lattice-quorum", "lattice-mover", "lattice-supervisor", "rm-replay"),
    "lattice-agent": ("lattice-agent",),
}
COMPILE = f"/{PREFIX}/bin/python -m compileall -q -j 0 /{PREFIX}/lib || true"
FORGET = f"find /{PREFIX}/lib -depth -name __pycache__ -exec rm -rf {{}} + 2>/dev/null || true"
MADE_LATER = f"/{PREFIX}/libexec"  # the Slurm commands, by `lattice compat-aliases`
NOT_OURS = frozenset({"example.py"})  # which a component leaves beside its modules
USERS = """\
if command -v systemd-sysusers >/dev/null; then systemd-sysusers lattice.conf; fi
if command -v systemd-tmpfiles >/dev/null; then systemd-tmpfiles --create lattice.conf || true; fi
"""
# A checkout, an environment made by hand, or a provision bundle: the two would overwrite each other.
FOREIGN = f"""\
#!/bin/sh
set -e
if [ "$1" = install ] && [ -e /{PREFIX} ] && ! dpkg -S /{PREFIX} >/dev/null 2>&1; then
    echo "$DPKG_MAINTSCRIPT_PACKAGE: /{PREFIX} exists and belongs to no package; move it away, then install again" >&2
    exit 2
fi
"""
RELOAD = """\
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    systemctl try-restart {unit}
fi
"""


def main() -> None:
    number = dist.version()
    if not list(DIST.glob(f"lattice_hpc-{number}-*.whl")):
        dist.main()
    staging = ROOT / "build" / "deb"
    shutil.rmtree(staging, ignore_errors=True)
    whole = staging / "whole"
    packages = _owners(_install(whole))
    for name in ABOUT:
        _fill(name, staging / name, whole, packages[name])
        _describe(name, staging / name, number)
        path = _pack(name, staging / name, number)
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size >> 20} MB")


def _install(whole: Path) -> list[Distribution]:
    """The environment with everything; what it consists of."""
    target = whole / PREFIX
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "venv", "-q", "--python", PYTHON, target], check=True)
    wanted = {str(each["name"]) for each in dist.components()}
    pinned = whole / "pinned.txt"
    pinned.write_text(dist.pinned_lines(wanted))
    into = [uv, "pip", "install", "-q", "--python", f"{target}/bin/python"]
    subprocess.run([*into, "--require-hashes", "-r", str(pinned)], check=True)
    subprocess.run([*into, "--no-deps", *map(str, DIST.glob("lattice_hpc*.whl"))], check=True)
    (libraries,) = target.glob("lib/python3.*/site-packages")
    return list(distributions(path=[str(libraries)]))


def _owners(installed: list[Distribution]) -> dict[str, list[Distribution]]:
    """Which package has which component: what server and agent share is in the one that both depend on."""
    known = {dist.normal(each.metadata["Name"]): each for each in installed}
    server, agent = (dist.closure(known, extras) for extras in (("server", "s3"), ("agent", "nvidia")))
    shared = (server & agent) | dist.closure(known, ())
    split = {"lattice-cli": shared, "lattice-server": server - shared, "lattice-agent": agent - shared}
    return {name: [known[each] for each in sorted(names)] for name, names in split.items()}


def _fill(name: str, target: Path, whole: Path, components: list[Distribution]) -> None:
    for component in components:
        for file in component.files or ():
            source = Path(str(component.locate_file(file))).resolve()
            if (
                source.exists()
                and source.name not in NOT_OURS
                and "__pycache__" not in source.parts
                and not source.is_relative_to(whole / PREFIX / "bin")
            ):
                _copy(source, target, whole)
    for script in SCRIPTS[name]:
        path = target / PREFIX / "bin" / script
        path.parent.mkdir(parents=True, exist_ok=True)
        text = (whole / PREFIX / "bin" / script).read_text()
        path.write_text(text.replace(str(whole / PREFIX), f"/{PREFIX}"))
        path.chmod(0o755)
    _link(target / "usr" / "bin" / SCRIPTS[name][0], f"/{PREFIX}/bin/{SCRIPTS[name][0]}")
    if name == "lattice-cli":
        _fill_common(target, whole)
        return
    unit = ROOT / "deploy" / "systemd" / UNITS[name]
    _write(target / "usr/lib/systemd/system" / unit.name, unit.read_text())
    if name == "lattice-server":
        _write(target / "usr/lib/sysusers.d/lattice.conf", (unit.parent / "lattice.sysusers").read_text())
        _write(target / "usr/lib/tmpfiles.d/lattice.conf", (unit.parent / "lattice.tmpfiles").read_text())


def _fill_common(target: Path, whole: Path) -> None:
    """The interpreter, the man pages, the site's configuration, completion."""
    environment = target / PREFIX
    _link(environment / "bin" / "python3", PYTHON)
    _link(environment / "bin" / "python", "python3")
    _write(environment / "pyvenv.cfg", f"home = {Path(PYTHON).parent}\ninclude-system-site-packages = false\n")
    shutil.rmtree(environment / "share" / "man", ignore_errors=True)
    for page in (ROOT / "share" / "man").rglob("*.?"):
        path = target / "usr/share/man" / page.parent.name / f"{page.name}.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(page.read_bytes(), 9, mtime=0))
    for shell, place in COMPLETIONS.items():
        _write(target / "usr/share" / place, (ROOT / "share" / "completions" / shell).read_text())
    _write(
        target / "etc/lattice/config.yaml",
        "# Where the commands on this machine find the cluster; see lattice-config(5).\n"
        "# api_url: https://s1.example.org:8443\n# ca_file: /etc/lattice/ca.pem\n",
    )


def _describe(name: str, target: Path, number: str) -> None:
    """Control files, documentation, and what lintian has to know."""
    control = target / "DEBIAN"
    major, minor = _python_version()
    depends = [f"python3 (>= {major}.{minor})", f"python3 (<< {major}.{minor + 1})"]
    if name == "lattice-cli":
        _write(control / "conffiles", "/etc/lattice/config.yaml\n")
    else:
        depends.append(f"lattice-cli (= {number})")
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file() and not path.is_symlink()) >> 10
    lines = {
        "Package": name,
        "Version": number,
        "Architecture": _said("dpkg", "--print-architecture"),
        "Maintainer": MAINTAINER,
        "Installed-Size": size,
        "Depends": ", ".join(["libc6", *depends]),
        **({"Recommends": "etcd-server"} if name == "lattice-server" else {}),
        "Section": "admin",
        "Priority": "optional",
        "Description": f"{ABOUT[name]}\n Batch jobs, services and terminals on shared nodes of a cluster.",
    }
    _write(control / "control", "".join(f"{key}: {value}\n" for key, value in lines.items()))
    _write_scripts(name, control)
    doc = target / "usr/share/doc" / name
    licence = (
        "Files: *\nLicense: Apache-2.0\n On Debian systems the licence is in /usr/share/common-licenses/Apache-2.0.\n"
    )
    _write(doc / "copyright", licence + " Components in /opt/lattice have their own, which each keeps beside it.\n")
    entry = f"{name} ({number}) unstable; urgency=medium\n\n  * Release {number}.\n\n -- {MAINTAINER}  Sun, 02 Feb 2020 00:00:00 +0000\n"
    (doc / "changelog.gz").write_bytes(gzip.compress(entry.encode(), 9, mtime=0))
    # What lintian is not to complain of.
    _write(target / "usr/share/lintian/overrides" / name, "".join(f"{name}: {tag} *\n" for tag in EXPECTED))


def _write_scripts(name: str, control: Path) -> None:
    after, before = [COMPILE], [FORGET]
    if name == "lattice-server":
        after += [USERS.rstrip()]
    if name in UNITS:
        after.append(RELOAD.format(unit=UNITS[name]).rstrip())
        # Work goes on: the unit of the agent stops the agent alone.
        stop = f'if [ "$1" = remove ] && [ -d /run/systemd/system ]; then systemctl disable --now {UNITS[name]} || true; fi'
        before.insert(0, stop)
    _write(control / "preinst", FOREIGN, 0o755)
    guard = 'if [ "$1" = configure ]; then'
    body = textwrap.indent("\n".join(after), "    ")
    _write(control / "postinst", f"#!/bin/sh\nset -e\n{guard}\n{body}\nfi\n", 0o755)
    if name == "lattice-cli":
        before.append(f'if [ "$1" = remove ]; then rm -rf {MADE_LATER}; fi')
    _write(control / "prerm", "\n".join(["#!/bin/sh", "set -e", *before, ""]), 0o755)


def _pack(name: str, target: Path, number: str) -> Path:
    for path in [target, *target.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or (os.access(path, os.X_OK) and ".so" not in path.name) else 0o644)
    architecture = _said("dpkg", "--print-architecture")
    result = DIST / f"{name}_{number}_{architecture}.deb"
    command = ["dpkg-deb", "-Zgzip", "--root-owner-group", "--build", str(target), str(result)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH})
    return result


def _python_version() -> tuple[int, int]:
    major, minor = _said(PYTHON, "-c", "import sys; print(*sys.version_info[:2])").split()
    return int(major), int(minor)


def _said(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def _copy(source: Path, target: Path, whole: Path) -> None:
    path = target / source.relative_to(whole)
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, path)


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def _link(path: Path, to: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(to)


if __name__ == "__main__":
    main()
