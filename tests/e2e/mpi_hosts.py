"""Four nodes on hosts of their own, as MPI libraries see hosts: a network, a name and shared memory each. Three servers, ordinary users."""

import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from lattice.api.auth.tokens import sign_token
from lattice.testing import eventually
from tests.e2e.node_hosts import NodeHosts
from tests.e2e.open_programs import package_folders
from tests.integration.quorum.etcd_networks import Network

# What makes a process one of the host: its name, its shared memory, and the names of the others.
_ENTER = 'hostname "$1" && mount -t tmpfs tmpfs /dev/shm && mount --bind "$2" /etc/hosts && shift 2 && exec "$@"'


class MpiHosts(NodeHosts):
    """`with MpiHosts(programs, users) as cluster:` - servers s1 to s3, nodes h1 to h4."""

    def __init__(self, programs: Path, *, settings: Mapping[str, str]) -> None:
        super().__init__(settings=settings)
        self.programs = programs
        self.hosts = ["h1", "h2", "h3", "h4"]
        self.node_count = len(self.hosts)
        self.network = Network([*self.names, *self.hosts])
        self.directory.chmod(0o755)
        (self.directory / "agents").mkdir(mode=0o711)

    def _start(self, name: str, command: list[str], place: str) -> None:
        if name not in self.hosts:
            super()._start(name, command, place)
            return
        names = self.directory / "hosts"
        names.write_text(
            "".join(f"{self.network.address(each)} {each}\n" for each in self.hosts) + "127.0.0.1 localhost\n"
        )
        names.chmod(0o644)
        inside = ["nsenter", f"--net=/run/netns/{self.network.space(place)}", "unshare", "--mount", "--uts"]
        line = [*inside, "sh", "-c", _ENTER, "sh", name, str(names), str(self.programs / command[0]), *command[1:]]
        log = os.open(self.directory / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._logs.append(log)
        self._processes[name] = subprocess.Popen(line, stdout=log, stderr=log, start_new_session=True)

    @property
    def slurm(self) -> Path:
        """The folder of the commands with Slurm's names."""
        return self.programs.parent / "libexec" / "slurm"

    def environment_of(self, user: str) -> dict[str, str]:
        """That of a shell of the user."""
        secret = (self.directory / "secret").read_bytes().strip()
        token = sign_token(
            secret, user=user, tenants=["default"], scope="", issued_at_s=int(time.time()), lifetime_s=3600
        )
        own = {"HOME": pwd.getpwnam(user).pw_dir, "USER": user, "PATH": f"{self.slurm}:{self.programs}:/usr/bin:/bin"}
        return {**self.environment(), **own, "LATTICE_TOKEN": token, "LATTICE_API_URL": self.api_url}

    def command(self, user: str, *words: str, cwd: Path) -> "subprocess.Popen[str]":
        program = shutil.which(words[0], path=self.environment_of(user)["PATH"]) or words[0]
        return subprocess.Popen(
            [program, *words[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env=self.environment_of(user),
        )

    def as_user(self, user: str, *words: str, cwd: Path, within_s: float = 180.0) -> "subprocess.CompletedProcess[str]":
        with self.command(user, *words, cwd=cwd) as process:
            output, errors = process.communicate(timeout=within_s)
        return subprocess.CompletedProcess(words, process.returncode, output, errors)

    def allocate(self, user: str, cwd: Path, *words: str) -> str:
        """An allocation of the user's that waits for steps."""
        submitted = self.as_user(user, "lattice", "submit", "-q", *words, "--", "sleep", "600", cwd=cwd)
        assert submitted.returncode == 0, submitted.stderr
        number = submitted.stdout.split()[0]
        self.wait_state(number, "Running", within_s=60)
        return number

    def cancel_all(self) -> None:
        self.post("/allocations/cancel", {"all": True})
        eventually(self._all_ready, "all nodes are ready", within_s=60)

    @property
    def mounts_of_programs(self) -> list[str]:
        """Flags that bring our programs, and the node's MPI libraries, into a container."""
        places = [str(self.programs.parent), *package_folders(), "/usr", "/etc/alternatives", "/etc/openmpi"]
        return [word for place in places if os.path.isdir(place) for word in ("--mount", f"{place}:{place}:ro")]


@contextmanager
def person(name: str, folder: Path) -> Iterator[Path]:
    """The home of an ordinary user who exists inside."""
    home = folder / name
    subprocess.run(["useradd", "--create-home", "--home-dir", home, "--shell", "/bin/sh", name], check=True)
    home.chmod(0o755)
    try:
        yield home
    finally:
        subprocess.run(["userdel", name], check=True)
