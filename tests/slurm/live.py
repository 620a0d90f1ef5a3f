"""The Slurm commands of one folder against one live cluster, as other programs find them on PATH."""

import subprocess
from pathlib import Path

from lattice.testing import LocalCluster


class Commands:
    def __init__(self, cluster: LocalCluster, folder: Path, home: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.home = home

    def environment(self, **more: str) -> dict[str, str]:
        """A login's environment: nothing of Slurm's in it, the commands first on PATH."""
        kept = {
            name: value
            for name, value in self.cluster.environment().items()
            if not name.startswith(("SLURM", "SBATCH", "SRUN", "SALLOC", "SQUEUE", "PYTHON", "VIRTUAL_ENV"))
        }
        return {**kept, "HOME": str(self.home), "PATH": f"{self.folder}:/usr/bin:/bin", **more}

    def __call__(
        self, program: str, *words: str, stdin: str = "", cwd: Path | None = None
    ) -> "subprocess.CompletedProcess[str]":
        return self.run([str(self.folder / program), *words], stdin=stdin, cwd=cwd)

    def run(
        self, words: list[str], *, stdin: str = "", cwd: Path | None = None, timeout_s: float = 100
    ) -> "subprocess.CompletedProcess[str]":
        """Any program that finds the commands on its PATH, and behind them what lies beside itself."""
        path = f"{self.folder}:{Path(words[0]).parent}:/usr/bin:/bin"
        return subprocess.run(
            words,
            input=stdin,
            capture_output=True,
            text=True,
            env=self.environment(PATH=path),
            cwd=cwd or self.home,
            timeout=timeout_s,
            check=False,
        )
