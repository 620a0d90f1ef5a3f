"""The man pages that follow no parser of ours alone: configuration files of the programs, `lattice-quorum`, and the Slurm commands."""

from pathlib import Path

from lattice.cli.slurm.install import PROGRAMS as SLURM_COMMANDS
from lattice.daemons.agent.file import OWN_FLAGS
from lattice.daemons.programs import agent, quorum, supervisor
from lattice_sdk.site.configuration import ALIASES, KEYS, SITE_FILE
from tools import slurm_options
from tools.code_reference import configuration
from tools.roff import head, line, of_tables, page, plain, verbatim

_CLIENT_KEYS = {
    "endpoint": "URL of the cluster; several, apart by commas or as a list, for several servers",
    "ca_file": "PEM file with the authorities of its certificate; otherwise those of the system",
    "token_file": "file with the token of a user who does not log in",
    "insecure_http": "true: allow plain http to other machines",
    "tenant": "tenant of submissions that name none",
    "vcluster": "vCluster of submissions that name none",
    "project": "project of submissions that name none",
    "default_uenv": "images of submissions that name none",
    "export": "which variables submissions hand on, as submit --export says it; NONE unless given",
    "output_format": "table, wide, json or yaml",
    "color": "no: no colours",
}
_LISTINGS = """\
squeue jobs, sinfo nodes and partitions, sacct ended jobs too, sstat running steps, sprio priorities, sshare shares of accounts,
sdiag counters of the server, sacctmgr accounts and users, sreport use over time, seff how well a job used what it held,
scontrol everything about one thing, and changes.
Each prints its options with \\-\\-help. scrontab is refused: cron does that."""


def pages() -> dict[Path, str]:
    """Every page by its place below share/man."""
    return {
        Path("man1/lattice-quorum.1"): _quorum(),
        Path("man1/lattice-supervisor.1"): _supervisor(),
        Path("man5/lattice-server.yaml.5"): _server_file(),
        Path("man5/lattice-agent.yaml.5"): _agent_file(),
        Path("man5/lattice-config.5"): _client_file(),
        Path("man7/lattice-slurm.7"): _slurm(),
    }


def _quorum() -> str:
    usage, _, examples = quorum.USAGE.partition("examples:\n")
    about = (quorum.__doc__ or "").strip().splitlines()
    lines = [*head("lattice-quorum", 1, "start the servers of a cluster and say who belongs to them"), ".SH SYNOPSIS"]
    lines += verbatim(each.removeprefix("usage: ").strip() for each in usage.splitlines() if "lattice-quorum" in each)
    lines += [".SH DESCRIPTION", "Another name for what concerns the servers of a cluster:", *verbatim(about[2:-2])]
    lines += [line(about[-1]), ".SH EXAMPLES", *verbatim(each.strip() for each in examples.splitlines())]
    return page([*lines, ".SH SEE ALSO", ".BR lattice\\-server (1),", ".BR lattice\\-server.yaml (5)"])


def _supervisor() -> str:
    about = (supervisor.__doc__ or "").strip().splitlines()
    lines = [*head("lattice-supervisor", 1, "run a cluster on this machine"), ".SH DESCRIPTION"]
    lines += ["lattice up and lattice down start it; it is rarely called by people."]
    lines += verbatim(about)
    return page([*lines, ".SH SEE ALSO", ".BR lattice\\-up (1),", ".BR lattice\\-down (1)"])


def _server_file() -> str:
    _, _, *lines = configuration()
    first = [*head("lattice-server.yaml", 5, "configuration of a Lattice server"), ".SH DESCRIPTION"]
    first += ["The file is /etc/lattice/server.yaml unless \\-\\-config names another one."]
    last = [".SH SEE ALSO", ".BR lattice\\-server (1)"]
    return page([*first, *of_tables(lines), *last])


def _agent_file() -> str:
    lines = [*head("lattice-agent.yaml", 5, "configuration of a Lattice agent"), ".SH DESCRIPTION"]
    lines += ["The file that lattice\\-agent \\-\\-config reads; that of the packages is /etc/lattice/agent.yaml."]
    lines += [
        "Every flag is a key, with underscores for dashes; flags on the command line override the file.",
        ".SH KEYS",
    ]
    parser = agent.build_parser()
    for action in parser._actions:
        if action.dest not in OWN_FLAGS:
            meaning = " ".join(((action.help or "") % {**vars(action), "prog": parser.prog}).split())
            lines += [".TP", f"\\fB{plain(action.dest)}\\fR", line(meaning)]
    return page([*lines, ".SH SEE ALSO", ".BR lattice\\-agent (1)"])


def _client_file() -> str:
    if _CLIENT_KEYS.keys() != KEYS:
        raise SystemExit(f"tools/man_reference.py: explain {', '.join(_CLIENT_KEYS.keys() ^ KEYS)}")
    lines = [*head("lattice-config", 5, "where the commands find the cluster"), ".SH DESCRIPTION"]
    lines += [
        line(f"{SITE_FILE} is that of the site. That of a user, which comes before it, is lattice/config.yaml in")
    ]
    lines += [
        "$XDG_CONFIG_HOME or ~/.config, or the file that LATTICE_CONFIG names. Flags and variables come before both."
    ]
    lines += ["A file that others keep may have further keys: they are named once and not used.", ".SH KEYS"]
    other = {key: alias for alias, key in ALIASES.items()}
    for key, text in _CLIENT_KEYS.items():
        also = f". {other[key]} means the same" if key in other else ""
        lines += [".TP", f"\\fB{plain(key)}\\fR", line(f"{text}{also}.")]
    example = ("endpoint: https://s1.example.org:8443", "ca_file: /etc/lattice/ca.pem", "vcluster: gpu")
    return page([*lines, ".SH EXAMPLE", *verbatim(example), ".SH SEE ALSO", ".BR lattice (1)"])


def _slurm() -> str:
    lines = [*head("lattice-slurm", 7, "the commands of Slurm in Lattice"), ".SH DESCRIPTION"]
    lines += [line(f"{', '.join(SLURM_COMMANDS)} have their names, options and output from Slurm.")]
    lines += [
        "They are put on the PATH by:",
        *verbatim((". $(lattice compat-aliases)",)),
        ".PP",
        *_LISTINGS.splitlines(),
    ]
    return page([*lines, *of_tables(slurm_options.tables()), ".SH SEE ALSO", ".BR lattice (1)"])
