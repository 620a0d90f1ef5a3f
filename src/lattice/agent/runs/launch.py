"""From an order to a request to the shim: account, directory, environment, run folder.

All of it may wait for name services and file systems, so it is called in a thread.
"""

import errno
import logging
import os
import pwd
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from lattice.agent.checkpoints.control import VARIABLES as CHECKPOINT_VARIABLES
from lattice.agent.checkpoints.control import checkpoint_variables
from lattice.agent.runs.devices import GPUS_VARIABLE, NOTHING, VISIBILITY, Devices
from lattice.agent.runs.folders import SCRIPT, TOKEN, RunFolders
from lattice.agent.runs.mpi import NAMES, launcher_variables, offer_launcher, write_hosts
from lattice.agent.shim_client import STANDARD_PATH
from lattice.core.model.work.exposure import variable_of
from lattice.ports.nodes.agents import StartOrder
from lattice.ports.nodes.probes import ProbeType

DEFAULT_MIN_UID = 1000
NOBODY = frozenset({65534, 0xFFFFFFFE})  # the overflow id of Linux, and as 32 bits have it
LAST_DIRECTORY = "/tmp"  # noqa: S108 - where a workload without any other place goes
SHELL = "/bin/sh"
COMMAND = "lattice"

# Credentials of the submitter, and what only this run's own agent may set.
STRIPPED = frozenset(
    {
        "LATTICE_TOKEN",
        "LATTICE_AGENT_TOKEN",
        "LATTICE_TOKEN_FILE",
        "LATTICE_AGENT_TOKEN_FILE",
        *CHECKPOINT_VARIABLES,
        "LATTICE_ALLOC_ID",
        "LATTICE_JOB_NAME",
        "LATTICE_NODELIST",
        "LATTICE_NNODES",
        "LATTICE_NPROCS",
        "LATTICE_TASK_INDEX",
        "LATTICE_TASK_GROUP_ID",
        "LATTICE_SUBMIT_DIR",
        "LATTICE_NODE_ID",
        "LATTICE_RUN",
        "LATTICE_INSTANCE",
        "LATTICE_ATTEMPT",
        GPUS_VARIABLE,
        *NAMES,
    }
)

NO_VARIABLES: Mapping[str, str] = {}

# Errors of the node's own disk: no other work would fare better here, and this work would elsewhere.
DISK_FAULTS = frozenset({errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT})

_log = logging.getLogger(__name__)


class LaunchRefused(Exception):
    """The run cannot start here; the text is for the user."""


class NodeCannotWrite(LaunchRefused):
    """Nothing can start here: the node's own folders take no more."""


def refusal_of(what: str, error: OSError) -> LaunchRefused:
    """How a failure to write the agent's own directories is reported: as the node's fault when it is the disk's."""
    kind = NodeCannotWrite if error.errno in DISK_FAULTS else LaunchRefused
    return kind(f"cannot write {what}: {error}")


class Account(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str


class AccountPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Whose work this node runs."""

    agent_uid: int
    agent_user: str
    min_uid: int = DEFAULT_MIN_UID
    allowed: frozenset[str] = frozenset()

    def refusal(self, account: Account) -> str:
        """Why work of this account may not run here; empty when it may."""
        if self.agent_uid != 0:
            if account.uid == self.agent_uid:
                return ""
            return (
                f"the agent of this node runs as {self.agent_user} and starts only that account's work, "
                f"not {account.name}'s"
            )
        if account.name in self.allowed:
            return ""
        if account.uid == 0:
            return f"work as {account.name} (uid 0) is not allowed on this node"
        if account.uid in NOBODY:
            return f"work as {account.name} (uid {account.uid}) is not allowed: everybody without an account is {account.name}"
        if account.uid < self.min_uid:
            return f"account {account.name} has uid {account.uid}, below the least allowed one, {self.min_uid}"
        return ""


def own_account() -> tuple[int, str]:
    """The agent's uid and name."""
    uid = os.geteuid()
    try:
        return uid, pwd.getpwuid(uid).pw_name
    except KeyError:
        return uid, str(uid)


def resolve_account(name: str, policy: AccountPolicy) -> Account:
    """The account as this node knows it; raises LaunchRefused when it is unknown or not welcome."""
    try:
        entry = pwd.getpwnam(name)
    except (KeyError, ValueError):
        raise LaunchRefused(f"account {name!r} does not exist on this node") from None
    account = Account(
        name=entry.pw_name,
        uid=entry.pw_uid,
        gid=entry.pw_gid,
        groups=tuple(os.getgrouplist(entry.pw_name, entry.pw_gid)),
        home=entry.pw_dir,
        shell=entry.pw_shell or SHELL,
    )
    refusal = policy.refusal(account)
    if refusal:
        raise LaunchRefused(refusal)
    return account


def owner_of(name: str, policy: AccountPolicy) -> tuple[int, int]:
    """The uid and gid of the account; raises OSError when it is unknown or not welcome."""
    try:
        account = resolve_account(name, policy)
    except LaunchRefused as refusal:
        raise OSError(str(refusal)) from refusal
    return account.uid, account.gid


def choose_directory(wanted: str, home: str, account: Account | None = None) -> tuple[str, str]:
    """Where the run starts, and a line for its stderr when that is not where it was submitted.

    What lies where the account cannot look is taken to be there: entering it fails for that account whether it is or not.
    """
    for directory in (wanted, home, LAST_DIRECTORY):
        if directory and (is_directory(directory) or (account is not None and is_hidden_from(account, directory))):
            break
    if directory == wanted or not wanted:
        return directory, ""
    return directory, f"lattice: directory {wanted} does not exist on this node, using {directory}\n"


def is_hidden_from(account: Account, path: str) -> bool:
    """Whether a directory above is closed to the account, so that it may not learn what lies below. Root looks for it."""
    if account.uid == 0 or not os.path.isabs(path):
        return False
    above = "/"
    for name in path.split("/")[:-1]:
        above = os.path.join(above, name)
        try:
            found = os.stat(above)
        except (OSError, ValueError):
            return False
        if found.st_uid == account.uid:
            may_search = found.st_mode & stat.S_IXUSR
        elif found.st_gid == account.gid or found.st_gid in account.groups:
            may_search = found.st_mode & stat.S_IXGRP
        else:
            may_search = found.st_mode & stat.S_IXOTH
        if not may_search:
            return True
    return False


def is_directory(path: str) -> bool:
    """Whether a run may be able to start there."""
    try:
        os.stat(os.path.join(path, "."))
    except PermissionError:
        # Root may be mapped to an unprivileged user on a network file system; the run's own user decides when it enters.
        return True
    except (OSError, ValueError):
        return False
    return os.path.isabs(path)


def offer_programs(state_dir: Path) -> str:
    """A directory that holds our own commands and nothing else; empty when there is nothing to offer.

    Not the directory they are installed in: with them come an interpreter and others that work did not ask for.
    """
    program = Path(sys.executable).with_name(COMMAND)
    directory = state_dir / "bin"
    if not program.exists() or os.pathsep in str(directory):
        return ""
    try:
        directory.mkdir(exist_ok=True)
        directory.chmod(0o755)
        for each in (program, *_slurm_programs()):
            _link(directory / each.name, each)
        offer_launcher(directory)
    except OSError as error:
        _log.warning("workloads will not find `%s`: %s", COMMAND, error)
        return ""
    return str(directory)


def _slurm_programs() -> list[Path]:
    """The Slurm commands that lie beside this installation, if they were made."""
    folder = Path(sys.prefix) / "libexec" / "slurm"
    if not folder.is_dir():
        return []
    return [each for each in sorted(folder.iterdir()) if each.suffix == "" and each.is_file() and each.name[0] != "."]


def _link(link: Path, program: Path) -> None:
    if not link.is_symlink() or link.readlink() != program:
        link.unlink(missing_ok=True)
        link.symlink_to(program)


def build_environment(
    order: StartOrder,
    account: Account,
    node_id: str,
    token_file: str,
    programs: str = "",
    device_variables: Mapping[str, str] = NO_VARIABLES,
) -> dict[str, str]:
    """A clean environment, then what the submission exported, then what Lattice says of the run.

    `programs` comes last in PATH, so that it hides nothing.
    """
    environment = {
        "PATH": STANDARD_PATH,
        "HOME": account.home,
        "USER": account.name,
        "LOGNAME": account.name,
        "SHELL": account.shell,
        "PYTHONUNBUFFERED": "1",  # output is followed while it is written
    }
    if language := os.environ.get("LANG"):
        environment["LANG"] = language
    environment.update((name, value) for name, value in order.env.items() if name not in STRIPPED)
    if device_variables:
        for name in VISIBILITY:
            environment.pop(name, None)
        environment.update(device_variables)
    if programs and programs not in environment["PATH"].split(os.pathsep):
        environment["PATH"] = os.pathsep.join(filter(None, (environment["PATH"], programs)))
    environment |= {
        "LATTICE_ALLOC_ID": order.allocation_id,
        "LATTICE_JOB_NAME": order.name,
        "LATTICE_NODELIST": ",".join(order.nodes),
        "LATTICE_NNODES": str(len(order.nodes) or 1),
        "LATTICE_NPROCS": str(order.tasks or len(order.nodes) or 1),
        "LATTICE_SUBMIT_DIR": order.submit_dir or order.cwd,
        "LATTICE_NODE_ID": node_id,
        "LATTICE_RUN": str(order.key.run),
    }
    environment |= {variable_of(each.name): str(each.port) for each in order.exposes if each.port}
    if order.restart:
        environment |= {"LATTICE_INSTANCE": str(order.instance), "LATTICE_ATTEMPT": str(order.attempt)}
    if order.task_index is not None:
        environment["LATTICE_TASK_INDEX"] = str(order.task_index)
    if order.task_group_id:
        environment["LATTICE_TASK_GROUP_ID"] = order.task_group_id
    if order.api_url:
        environment["LATTICE_API_URL"] = order.api_url
    if token_file:
        environment["LATTICE_TOKEN_FILE"] = token_file
    return environment


def command_line(order: StartOrder, folder: Path) -> list[str]:
    """What is executed: the argument vector as it is, or the private copy of the script."""
    if not order.script:
        return list(order.argv)
    script = [str(folder / SCRIPT), *order.script_args]
    return script if order.script.startswith(b"#!") else [SHELL, *script]


def prepare(
    order: StartOrder,
    folders: RunFolders,
    policy: AccountPolicy,
    node_id: str,
    shim_id: str,
    programs: str = "",
    devices: Devices = NOTHING,
    device_variables: Mapping[str, str] = NO_VARIABLES,
    account: Account | None = None,
) -> dict[str, object]:
    """Make the run folder and say what the shim is to start; raises LaunchRefused and leaves nothing then.

    An `account` that is known already is not looked up again.
    """
    if not order.script and not order.argv:
        raise LaunchRefused("there is nothing to execute: neither a command nor a script")
    account = account or resolve_account(order.user, policy)
    directory, note = choose_directory(order.cwd, account.home, account)
    try:
        folder = folders.create(order, (account.uid, account.gid), shim_id, devices)
        if note and order.attempt == 1:
            with (folder / "stderr").open("a") as file:
                file.write(note)
            (folder / "stderr").chmod(0o600)
        mpi = {}
        if order.node_cpus and programs:
            write_hosts(order, str(folder), (account.uid, account.gid))
            mpi = launcher_variables(str(folder), programs)
    except OSError as error:
        raise refusal_of("the run's folder", error) from error
    token_file = str(folder / TOKEN) if order.token else ""
    variables = checkpoint_variables(order, folders.state_dir)
    request: dict[str, object] = {
        "op": "start",
        "number": order.key.number,
        "run": order.key.run,
        "dir": str(folder),
        "argv": command_line(order, folder),
        "env": build_environment(order, account, node_id, token_file, programs, device_variables) | mpi | variables,
        "cwd": directory,
        "uid": account.uid,
        "gid": account.gid,
        "groups": list(account.groups),
        # Not the name of the attempt before, whose group may be about to be removed.
        "cgroup": f"alloc-{order.key}" if order.attempt == 1 else f"alloc-{order.key}-{order.attempt}",
        "walltime_s": order.walltime_s,
        "grace_s": order.grace_s,
        "umask": order.umask,
    }
    if devices.cpus:
        request["cpus"] = list(devices.cpus)
    if order.holds:
        request["holds"] = True  # shims that do not know it execute what the server sent instead
    return request | _extras(order)


def _extras(order: StartOrder) -> dict[str, object]:
    extras: dict[str, object] = {}
    if order.files is not None:
        files = order.files
        mode = "append" if files.append else "truncate"
        extras["files"] = {"stdout": files.stdout, "stderr": files.stderr, "stdin": files.stdin, "mode": mode}
    if order.early_signal is not None:
        extras["early"] = msgspec.structs.asdict(order.early_signal)
    if any(probe.type is ProbeType.EXEC for probe in order.probes):
        extras["probed"] = True
    return extras
