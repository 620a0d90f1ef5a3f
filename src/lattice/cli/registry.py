"""Every command, by the words that call it. Only the module of the command asked for is imported."""

from collections.abc import Iterator
from typing import NamedTuple


class Leaf(NamedTuple):
    """A command: its module below `lattice.cli.commands`, with `:NAME` where that holds several."""

    module: str
    summary: str
    is_hidden: bool = False


class Branch(NamedTuple):
    """A word that needs another."""

    summary: str
    entries: "dict[str, Leaf | Branch]"


NODE = Branch(
    "look after nodes",
    {
        "list": Leaf("node.list", "list the nodes"),
        "status": Leaf("node.orders:STATUS", "show one node in full"),
        "drain": Leaf("node.orders:DRAIN", "let a node finish its work and start none"),
        "undrain": Leaf("node.orders:UNDRAIN", "use a drained node again"),
        "disable": Leaf("node.orders:DISABLE", "take a node down at once"),
        "check": Leaf("node.check", "run the health checks of a node now"),
        "enable": Leaf("node.orders:ENABLE", "bring a disabled node back"),
        "diff": Leaf("node.diff", "show what differs between two nodes"),
        "reboot": Leaf("node.orders:REBOOT", "have a node started anew"),
        "fault": Leaf("node.orders:FAULT", "report a failure of hardware, seen from outside"),
        "inventory": Leaf("node.inventory", "show what a node is made of"),
        "events": Leaf("node.events", "tell what happened to a node"),
    },
)

DAG = Branch(
    "allocations that depend on one another",
    {
        "submit": Leaf("work.dag:SUBMIT", "submit all allocations of a file, or none"),
        "status": Leaf("work.dag:STATUS", "show a DAG and its allocations"),
        "list": Leaf("work.dag:LIST", "list your DAGs"),
        "cancel": Leaf("work.dag:CANCEL", "end everything of a DAG"),
    },
)

ADMIN = Branch(
    "administer the cluster",
    {
        "tenant": Branch(
            "tenants and their quotas",
            {
                "create": Leaf("admin.tenant:CREATE", "create a tenant"),
                "list": Leaf("admin.tenant:LIST", "list the tenants"),
                "show": Leaf("admin.tenant:SHOW", "show one tenant in full"),
                "update": Leaf("admin.tenant:UPDATE", "change a tenant"),
                "set-quota": Leaf("admin.tenant:UPDATE", "change the quotas of a tenant"),
            },
        ),
        "vcluster": Branch(
            "virtual clusters",
            {
                "create": Leaf("admin.vcluster:CREATE", "create a vCluster"),
                "list": Leaf("admin.vcluster:LIST", "list the vClusters"),
                "show": Leaf("admin.vcluster:SHOW", "show one vCluster in full"),
                "update": Leaf("admin.vcluster:UPDATE", "change a vCluster"),
                "set-config": Leaf("admin.vcluster:UPDATE", "change the settings of a vCluster"),
                "set-weights": Leaf("admin.weights:SET", "change how a vCluster orders its queue"),
            },
        ),
        "reservation": Branch(
            "nodes kept for a time",
            {
                "create": Leaf("admin.reservation:CREATE", "keep nodes for a time, for somebody or for nobody"),
                "list": Leaf("admin.reservation:LIST", "list the reservations"),
                "show": Leaf("admin.reservation:SHOW", "show one reservation in full"),
                "delete": Leaf("admin.reservation:DELETE", "give the nodes back"),
            },
        ),
        "project": Branch(
            "projects of tenants",
            {
                "create": Leaf("admin.project:CREATE", "create a project"),
                "list": Leaf("admin.project:LIST", "list the projects"),
                "update": Leaf("admin.project:UPDATE", "change a project"),
            },
        ),
        "config": Branch(
            "settings of the cluster",
            {
                "get": Leaf("admin.config:GET", "print one setting"),
                "set": Leaf("admin.config:SET", "change one setting"),
                "list": Leaf("admin.config:LIST", "list the settings"),
            },
        ),
        "scheduler": Branch(
            "the scheduler",
            {"status": Leaf("admin.scheduler:STATUS", "show the scheduler's last cycle")},
        ),
        "raft": Branch(
            "the servers that share the log",
            {
                "status": Leaf("admin.raft:STATUS", "show who leads and how far each server has come"),
                "transfer-leader": Leaf("admin.raft:TRANSFER", "let another server lead"),
                "members": Branch(
                    "which servers belong to the cluster",
                    {
                        "list": Leaf("admin.raft_members:LIST", "list the servers and who is invited"),
                        "add": Leaf("admin.raft_members:ADD", "invite a new server"),
                        "remove": Leaf("admin.raft_members:REMOVE", "take a server out for good"),
                        "promote": Leaf("admin.raft_members:PROMOTE", "give a server that has caught up its vote"),
                        "transfer-leader": Leaf("admin.raft:TRANSFER", "let another server lead"),
                    },
                ),
                "rotate-certificates": Leaf("admin.raft_members:ROTATE", "give every server new certificates"),
            },
        ),
        "backup": Branch(
            "backups of the cluster's state",
            {
                "create": Leaf("admin.backup:CREATE", "make a backup on the server that leads"),
                "list": Leaf("admin.backup:LIST", "list the backups of the server that leads"),
                "verify": Leaf("admin.backup:VERIFY", "check every byte of a backup"),
                "restore": Leaf("admin.backup:RESTORE", "begin anew with a backup"),
            },
        ),
        "conformance": Branch(
            "are the nodes what they should be",
            {
                "status": Leaf("admin.conformance:STATUS", "show groups of like nodes and who differs"),
                "refresh": Leaf("admin.conformance:REFRESH", "let nodes look at themselves again"),
                "baseline": Branch(
                    "what the nodes of a vCluster should be",
                    {
                        "show": Leaf("admin.conformance:SHOW", "show it"),
                        "set": Leaf("admin.conformance:SET", "declare it"),
                        "unset": Leaf("admin.conformance:UNSET", "let the majority count"),
                    },
                ),
            },
        ),
        "node": Branch(
            "nodes of the site: import them, decide about them",
            {
                "import": Leaf("admin.node_import:IMPORT", "declare the nodes of a SlurmConf or NodeSpecConf"),
                "wipe": Leaf("node.orders:WIPE", "erase what sensitive work may have left on a node"),
                "approve": Leaf("admin.conformance:APPROVE", "take a node back whose drift was remedied"),
            },
        ),
        "drain": Leaf("node.orders:DRAIN", "the same as `lattice node drain`"),
        "undrain": Leaf("node.orders:UNDRAIN", "the same as `lattice node undrain`"),
    },
)

AUDIT = Branch(
    "who did what: the audit chain",
    {
        "query": Leaf("site.audit:QUERY", "show entries"),
        "export": Leaf("site.audit:EXPORT", "write entries with their signatures to a file"),
        "verify": Leaf("site.audit:VERIFY", "verify an export, without a server"),
        "keys": Leaf("site.audit:KEYS", "list the public keys"),
        "rotate-key": Leaf("site.audit:ROTATE", "give the server that leads a new key"),
    },
)

NOTIFY = Branch(
    "what you are told of your allocations",
    {
        "show": Leaf("site.notify:SHOW", "show what you are told by default, and how the site sends"),
        "set": Leaf("site.notify:SET", "set what you are told by default"),
        "clear": Leaf("site.notify:CLEAR", "be told nothing by default"),
        "key": Leaf("site.notify:KEY", "print the key that signs your webhooks"),
    },
)

PROJECT = Branch(
    "projects of your tenant",
    {
        "list": Leaf("admin.project:LIST", "list the projects"),
        "create": Leaf("admin.project:CREATE", "create a project"),
        "update": Leaf("admin.project:UPDATE", "change a project"),
    },
)

COMMANDS: dict[str, Leaf | Branch] = {
    "submit": Leaf("work.submit", "submit a script or a command"),
    "status": Leaf("work.status", "show allocations"),
    "explain": Leaf("work.explain", "say why allocations wait and when they will start"),
    "launch": Leaf("work.launch", "run tasks on the nodes of a running allocation"),
    "steps": Leaf("work.steps", "show what was launched in an allocation"),
    "wait": Leaf("work.wait", "wait until allocations have ended"),
    "logs": Leaf("work.logs", "show what an allocation wrote"),
    "watch": Leaf("work.watch", "show changes of state as they happen"),
    "cancel": Leaf("work.cancel", "cancel allocations"),
    "hold": Leaf("work.hold", "keep pending allocations from starting"),
    "release": Leaf("work.release", "take a hold back"),
    "suspend": Leaf("work.suspend", "let running allocations stand still"),
    "resume": Leaf("work.resume", "let suspended allocations go on"),
    "requeue": Leaf("work.requeue", "stop allocations and run them again"),
    "update": Leaf("work.update", "change an allocation"),
    "history": Leaf("work.history", "show allocations that have ended"),
    "usage": Leaf("site.usage", "show node hours and GPU hours"),
    "report": Leaf("site.report", "sum up what has ended: hours, waits, efficiency"),
    "notify": NOTIFY,
    "audit": AUDIT,
    "project": PROJECT,
    "nodes": Leaf("node.list", "show the nodes"),
    "node": NODE,
    "dag": DAG,
    "admin": ADMIN,
    "login": Leaf("identity.login", "log in at the cluster's identity provider"),
    "logout": Leaf("identity.logout", "forget a login and have it revoked"),
    "whoami": Leaf("identity.whoami", "show who the server takes you for"),
    "up": Leaf("local.up", "start a cluster on this machine"),
    "down": Leaf("local.down", "stop the cluster on this machine"),
    "env": Leaf("local.env", "print the variables that lead to the local cluster"),
    "compat-aliases": Leaf("shell.compat_aliases", "print the file that puts the Slurm commands on PATH"),
    "completion": Leaf("shell.completion", "print the completion script for a shell"),
    "completions": Leaf("shell.completion", "the same as `lattice completion`", is_hidden=True),
    "complete-word": Leaf("shell.complete_word", "used by the completion scripts", is_hidden=True),
    "version": Leaf("shell.version", "print the version"),
}


def leaves(
    entries: dict[str, Leaf | Branch] = COMMANDS, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Leaf]]:
    """Every command with its words, in the order of the table."""
    for word, entry in entries.items():
        if isinstance(entry, Leaf):
            yield (*words, word), entry
        else:
            yield from leaves(entry.entries, (*words, word))
