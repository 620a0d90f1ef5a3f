"""The release before beside this one: its recorded wheels, and programs that run either, process by process.

The supervisor of a local cluster restarts what ended. Its programs are small scripts here: each looks up which release its server or
node is to run. So a release is replaced as a package is, and every argument comes from the release that the cluster began with.
"""

import site
import subprocess
import sys
from pathlib import Path

from tests.upgrades.wheels import unpack_wheels

ROOT = Path(__file__).resolve().parents[2]
BEFORE, NOW = "0.1.0", "0.2.0"
RECORDED = ROOT / "tests" / "upgrades" / "0.1.0-911972a"
_PROGRAM = """\
#!/bin/bash
role={role}; name=server; last=
for word in "$@"; do
    [ "$last" = --node-id ] && name=$word
    [ "$last" = --config ] && [ $role = server ] && name=$(basename "$(dirname "$word")")
    last=$word
done
release=$(cat {folder}/wanted/$name 2>/dev/null || echo {before})
exec {folder}/$release/bin/python {folder}/$release/lattice-{role} "$@"
"""
# A process that its release starts by the interpreter alone (the shim) stays with it; what it starts by name gets the choice.
_MAIN = """\
import sys
sys.argv[0] = "lattice-{role}"
from {module} import main
sys.exit(main())
"""
_MODULES = {
    BEFORE: {"server": "lattice.daemons.server", "agent": "lattice.daemons.agent"},
    NOW: {"server": "lattice.daemons.programs.server", "agent": "lattice.daemons.programs.agent"},
}


class TwoReleases:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        sources = folder / "sources"
        sources.mkdir(parents=True)
        (folder / "wanted").mkdir()
        unpack_wheels(RECORDED, sources)
        self._environment(BEFORE, [sources])
        self._environment(NOW, [ROOT / "src", ROOT / "sdk" / "src"])
        for name, module in (("lattice", "lattice.cli.main"), ("lattice-supervisor", "lattice.daemons.supervisor")):
            path = folder / BEFORE / "bin" / name
            python = folder / BEFORE / "bin" / "python"
            path.write_text(f"#!{python}\nimport sys\nfrom {module} import main\nsys.exit(main())\n")
            path.chmod(0o755)

    @property
    def cli_before(self) -> Path:
        return self.folder / BEFORE / "bin" / "lattice"

    def want(self, name: str, release: str) -> None:
        """The next process of this server or node runs that release."""
        (self.folder / "wanted" / name).write_text(release)

    def _environment(self, release: str, paths: list[Path]) -> None:
        place = self.folder / release
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
        (packages,) = place.glob("lib/python*/site-packages")
        # The sources of the release, then the components of this environment, without what its own .pth files add.
        (packages / "release.pth").write_text("\n".join([*map(str, paths), *site.getsitepackages()]) + "\n")
        for role, module in _MODULES[release].items():
            (place / f"lattice-{role}").write_text(_MAIN.format(role=role, module=module))
            program = place / "bin" / f"lattice-{role}"
            program.write_text(_PROGRAM.format(role=role, folder=self.folder, before=BEFORE))
            program.chmod(0o755)
