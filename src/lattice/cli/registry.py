"""Every command, by the words that call it. Only the module of the requested command is imported."""

from collections.abc import Iterator
from typing import NamedTuple


class Leaf(NamedTuple):
    """A command: its module below `lattice.cli.commands`, with `:NAME` if the module defines several commands."""

    module: str
    summary: str
    is_hidden: bool = False


class Branch(NamedTuple):
    """A word that needs a subcommand, unless it has a default."""

    summary: str
    entries: "dict[str, Leaf | Branch]"
    default: str = ""
    takes_words: bool = False  # a word that is no subcommand is for the default one


NODE = Branch(
    "manage nodes",
    {
        "list": Leaf("node.list", "list nodes"),
        "status": Leaf("node.orders:STATUS", "show all details of nodes"),
        "drain": Leaf("node.orders:DRAIN", "stop scheduling onto nodes and let running work finish"),
        "undrain": Leaf("node.orders:UNDRAIN", "return drained nodes to service"),
        "disable": Leaf("node.orders:DISABLE", "take nodes down immediately"),
        "check": Leaf("node.check", "run the health checks of nodes now"),
        "enable": Leaf("node.orders:ENABLE", "bring disabled nodes back"),
        "diff": Leaf("node.diff", "show the differences between two nodes"),
        "reboot": Leaf("node.orders:REBOOT", "reboot nodes"),
        "fault": Leaf("node.orders:FAULT", "report a hardware failure detected out of band"),
        "inventory": Leaf("node.inventory", "show the hardware and software of a node"),
        "events": Leaf("node.events", "show the event history of a node"),
        "metrics": Leaf("telemetry.node", "show what a node uses"),
    },
)

CACHE = Branch(
    "manage the image caches of nodes",
    {
        "status": Leaf("images.cache:STATUS", "show what is in the image caches"),
        "warm": Leaf("images.cache:WARM", "have nodes fetch an image before work needs it"),
        "evict": Leaf("images.cache:EVICT", "remove an image from the caches"),
        "pin": Leaf("images.cache:PIN", "keep an image in the caches"),
        "unpin": Leaf("images.cache:UNPIN", "let an image be evicted again"),
    },
)

DATA = Branch(
    "bring data to the hot tier and show it",
    {
        "status": Leaf("data.copies:STATUS", "show how full the hot tier is"),
        "list": Leaf("data.copies:LIST", "list sources on the hot tier that your work uses"),
        "stage": Leaf("data.copies:STAGE", "bring a source to the hot tier before work needs it"),
        "evict": Leaf("data.copies:EVICT", "have a source leave the hot tier"),
    },
)

RETENTION = Branch(
    "show and keep what ended work left behind",
    {
        "list": Leaf("data.retention:LIST", "list what is kept of ended work, and until when"),
        "keep": Leaf("data.retention:KEEP", "keep logs and checkpoints of an allocation for good"),
    },
)

CHECKPOINT = Branch(
    "ask work for checkpoints and show them",
    {
        "request": Leaf(
            "checkpoints.request", "ask running allocations for a checkpoint (`lattice checkpoint ID` too)"
        ),
        "list": Leaf("checkpoints.show:LIST", "list the checkpoints of an allocation"),
        "show": Leaf("checkpoints.show:SHOW", "show all details of a checkpoint"),
    },
    default="request",
    takes_words=True,
)

UENV = Branch(
    "find and inspect images with software",
    {
        "list": Leaf("images.uenv:LIST", "list the images of the site"),
        "find": Leaf("images.uenv:FIND", "find images by a part of their name"),
        "inspect": Leaf("images.uenv:INSPECT", "show all details of an image"),
        "views": Leaf("images.uenv:VIEWS", "show what the views of an image do to the environment"),
        "status": Leaf("images.uenv:STATUS", "show the images of a running allocation and what their views did"),
        "pull": Leaf("images.files:PULL", "copy an image of the site to a file"),
        "push": Leaf("images.files:PUSH", "add an image to those of the site"),
        "sign": Leaf("images.files:SIGN", "sign an image"),
        "test": Leaf("images.files:TEST", "check that an image can be used"),
    },
)

DAG = Branch(
    "manage DAGs: sets of dependent allocations",
    {
        "submit": Leaf("work.dag:SUBMIT", "submit all allocations in a file, or none"),
        "status": Leaf("work.dag:STATUS", "show a DAG and its allocations"),
        "list": Leaf("work.dag:LIST", "list your DAGs"),
        "cancel": Leaf("work.dag:CANCEL", "cancel all allocations of DAGs"),
    },
)

ADMIN = Branch(
    "administer the cluster",
    {
        "tenant": Branch(
            "manage tenants and their quotas",
            {
                "create": Leaf("admin.tenant:CREATE", "create a tenant"),
                "list": Leaf("admin.tenant:LIST", "list tenants"),
                "show": Leaf("admin.tenant:SHOW", "show all details of a tenant"),
                "update": Leaf("admin.tenant:UPDATE", "change a tenant"),
                "set-quota": Leaf("admin.tenant:UPDATE", "change the quotas of a tenant"),
                "delete": Leaf("admin.delete:TENANT", "delete a tenant that nothing uses"),
            },
        ),
        "vcluster": Branch(
            "manage virtual clusters",
            {
                "create": Leaf("admin.vcluster:CREATE", "create a vCluster"),
                "list": Leaf("admin.vcluster:LIST", "list vClusters"),
                "show": Leaf("admin.vcluster:SHOW", "show all details of a vCluster"),
                "update": Leaf("admin.vcluster:UPDATE", "change a vCluster"),
                "set-config": Leaf("admin.vcluster:UPDATE", "change the settings of a vCluster"),
                "set-weights": Leaf("admin.weights:SET", "change the scheduling weights of a vCluster"),
                "delete": Leaf("admin.delete:VCLUSTER", "delete a vCluster that nothing uses"),
            },
        ),
        "reservation": Branch(
            "manage reservations of nodes",
            {
                "create": Leaf("admin.reservation:CREATE", "reserve nodes for tenants, users or maintenance"),
                "list": Leaf("admin.reservation:LIST", "list reservations"),
                "show": Leaf("admin.reservation:SHOW", "show all details of a reservation"),
                "delete": Leaf("admin.reservation:DELETE", "delete a reservation and free its nodes"),
            },
        ),
        "project": Branch(
            "manage the projects of tenants",
            {
                "create": Leaf("admin.project:CREATE", "create a project"),
                "list": Leaf("admin.project:LIST", "list projects"),
                "update": Leaf("admin.project:UPDATE", "change a project"),
                "delete": Leaf("admin.delete:PROJECT", "delete a project that nothing uses"),
            },
        ),
        "config": Branch(
            "manage the settings of the cluster",
            {
                "get": Leaf("admin.config:GET", "print one setting"),
                "set": Leaf("admin.config:SET", "change one setting"),
                "list": Leaf("admin.config:LIST", "list the settings and their values"),
            },
        ),
        "scheduler": Branch(
            "inspect the scheduler",
            {"status": Leaf("admin.scheduler:STATUS", "show the last scheduling cycle")},
        ),
        "alerts": Leaf("observe.alerts:ALERTS", "show what needs attention now"),
        "diag-bundle": Leaf(
            "observe.bundle:BUNDLE", "collect status, logs and metrics into one file for a problem report"
        ),
        "prometheus-targets": Leaf("observe.targets:TARGETS", "print where Prometheus finds the agents' metrics"),
        "metrics": Branch(
            "inspect the servers' metrics",
            {"dump": Leaf("observe.metrics:DUMP", "print what the metrics of a server were in the last hours")},
        ),
        "raft": Branch(
            "manage the servers of the cluster and their replicated log",
            {
                "status": Leaf("admin.raft:STATUS", "show the leader and each server's applied index"),
                "transfer-leader": Leaf("admin.raft:TRANSFER", "transfer leadership to another server"),
                "members": Branch(
                    "manage the member servers",
                    {
                        "list": Leaf("admin.raft_members:LIST", "list the member servers and open invitations"),
                        "add": Leaf("admin.raft_members:ADD", "invite a new server to join"),
                        "remove": Leaf("admin.raft_members:REMOVE", "remove a server permanently"),
                        "promote": Leaf(
                            "admin.raft_members:PROMOTE", "make a server that has caught up a voting member"
                        ),
                        "transfer-leader": Leaf("admin.raft:TRANSFER", "transfer leadership to another server"),
                    },
                    default="list",
                ),
                "rotate-certificates": Leaf("admin.raft_members:ROTATE", "rotate the server certificates"),
            },
        ),
        "upgrade": Branch(
            "manage the upgrade of the cluster to a new release",
            {
                "plan": Leaf("admin.rollout:PLAN", "show what a rolling upgrade would do"),
                "start": Leaf("admin.rollout:START", "start a rolling upgrade of agents or servers"),
                "status": Leaf("admin.upgrade:STATUS", "show the upgrade, the level and what each server supports"),
                "pause": Leaf("admin.rollout:PAUSE", "start no further node"),
                "resume": Leaf("admin.rollout:RESUME", "continue a paused upgrade"),
                "rollback": Leaf("admin.rollout:ROLLBACK", "return what was upgraded to its former release"),
                "finalize": Leaf("admin.upgrade:FINALIZE", "raise the level; a downgrade is impossible afterwards"),
            },
        ),
        "backup": Branch(
            "manage backups of the cluster state",
            {
                "create": Leaf("admin.backup:CREATE", "create a backup on the leader"),
                "list": Leaf("admin.backup:LIST", "list the backups of all servers"),
                "verify": Leaf("admin.backup:VERIFY", "verify the integrity of a backup"),
                "fetch": Leaf("admin.backup:FETCH", "copy a backup from one server to another"),
                "restore": Leaf("admin.backup:RESTORE", "restore the cluster from a backup"),
            },
        ),
        "conformance": Branch(
            "check nodes against their configuration baseline",
            {
                "status": Leaf("admin.conformance:STATUS", "show groups of identical nodes and the nodes that drift"),
                "refresh": Leaf("admin.conformance:REFRESH", "re-read the inventory of nodes"),
                "baseline": Branch(
                    "manage the baseline of a vCluster",
                    {
                        "show": Leaf("admin.conformance:SHOW", "show the baseline"),
                        "set": Leaf("admin.conformance:SET", "declare the baseline"),
                        "unset": Leaf("admin.conformance:UNSET", "remove the declared baseline; use the majority"),
                    },
                ),
            },
        ),
        "node": Branch(
            "import, admit, wipe, approve and delete nodes",
            {
                "import": Leaf("admin.node_import:IMPORT", "declare the nodes in a SlurmConf or NodeSpecConf"),
                "wipe": Leaf("node.orders:WIPE", "erase data that sensitive work may have left on nodes"),
                "admit": Leaf("admin.admission:ADMIT", "let waiting or revoked nodes into the cluster"),
                "revoke": Leaf("admin.admission:REVOKE", "end the credentials of nodes at once"),
                "delete": Leaf("admin.delete:NODE", "delete nodes that are gone for good"),
                "approve": Leaf("admin.conformance:APPROVE", "return nodes to service after their drift was fixed"),
            },
        ),
        "drain": Leaf("node.orders:DRAIN", "alias of `lattice node drain`"),
        "undrain": Leaf("node.orders:UNDRAIN", "alias of `lattice node undrain`"),
    },
)

AUDIT = Branch(
    "query and verify the audit log",
    {
        "query": Leaf("site.audit:QUERY", "show audit entries"),
        "export": Leaf("site.audit:EXPORT", "write signed audit entries to a file"),
        "verify": Leaf("site.audit:VERIFY", "verify an export offline"),
        "keys": Leaf("site.audit:KEYS", "list the public keys that sign the audit log"),
        "rotate-key": Leaf("site.audit:ROTATE", "give the leader a new signing key"),
    },
)

NOTIFY = Branch(
    "manage notifications about your allocations",
    {
        "show": Leaf("site.notify:SHOW", "show your default notifications and the channels of the site"),
        "set": Leaf("site.notify:SET", "set your default notifications"),
        "clear": Leaf("site.notify:CLEAR", "turn your default notifications off"),
        "key": Leaf("site.notify:KEY", "print the key that signs your webhooks"),
    },
)

PROJECT = Branch(
    "manage the projects of your tenant",
    {
        "list": Leaf("admin.project:LIST", "list projects"),
        "create": Leaf("admin.project:CREATE", "create a project"),
        "update": Leaf("admin.project:UPDATE", "change a project"),
        "delete": Leaf("admin.delete:PROJECT", "delete a project that nothing uses"),
    },
)

SESSION = Branch(
    "request nodes and work on them in a terminal",
    {
        "start": Leaf(
            "terminal.session:START", "request nodes and open a terminal there (`lattice session` alone too)"
        ),
        "list": Leaf("terminal.session:LIST", "list your sessions"),
        "show": Leaf("terminal.session:SHOW", "show a session and its terminals"),
        "end": Leaf("terminal.session:END", "end sessions"),
    },
    default="start",
)

SERVICE = Branch(
    "services that run, and where",
    {
        "list": Leaf("services.registry:LIST", "list the services of your tenants"),
        "lookup": Leaf("services.registry:LOOKUP", "print the endpoints of a service"),
        "show": Leaf("services.registry:SHOW", "show a service and its endpoints"),
        "update": Leaf("services.revisions:UPDATE", "change what a service runs, instance by instance"),
        "history": Leaf("services.revisions:HISTORY", "list the revisions of a service"),
        "rollback": Leaf("services.revisions:ROLLBACK", "take back an update, or run an earlier revision again"),
        "open": Leaf("services.registry:OPEN", "print an address for a browser that leads to a service"),
    },
)

COMMANDS: dict[str, Leaf | Branch] = {
    "run": Leaf("work.run", "run a command or a script, show its output, exit with its exit code"),
    "submit": Leaf("work.submit", "submit a script or a command"),
    "status": Leaf("work.status", "show allocations"),
    "explain": Leaf("work.explain", "explain why allocations are pending, when they will start, and how they ended"),
    "launch": Leaf("work.launch", "run tasks on the nodes of a running allocation"),
    "session": SESSION,
    "attach": Leaf("terminal.attach", "open a terminal in a running allocation, or go back to one"),
    "forward": Leaf("ports.forward", "reach ports of a running allocation on this machine"),
    "open": Leaf("ports.open", "print an address for a browser that leads to a running allocation"),
    "service": SERVICE,
    "notebook": Leaf("ports.app:NOTEBOOK", "run Jupyter in an allocation and reach it on this machine"),
    "app": Branch(
        "applications that are used in a browser",
        {
            "list": Leaf("ports.app:LIST", "list the applications"),
            "run": Leaf("ports.app:RUN", "run an application in an allocation and reach it on this machine"),
        },
    ),
    "steps": Leaf("work.steps", "list the steps of an allocation"),
    "wait": Leaf("work.wait", "wait for allocations to finish"),
    "logs": Leaf("work.logs", "show the output of an allocation"),
    "watch": Leaf("work.watch", "stream state changes as they happen"),
    "top": Leaf("telemetry.top", "show what running allocations use"),
    "metrics": Leaf("telemetry.top", "alias of `lattice top`"),
    "compare": Leaf("telemetry.compare", "compare what allocations used, from the start of each"),
    "diag": Leaf("telemetry.diag", "diagnose the network, storage and GPUs of an allocation"),
    "diagnostics": Leaf("telemetry.diag", "alias of `lattice diag`"),
    "telemetry": Leaf("telemetry.mode", "change how closely an allocation is measured"),
    "cancel": Leaf("work.cancel", "cancel allocations"),
    "hold": Leaf("work.hold", "keep pending allocations from starting"),
    "release": Leaf("work.release", "release held allocations"),
    "suspend": Leaf("work.suspend", "suspend running allocations (they keep their nodes; walltime is paused)"),
    "resume": Leaf("work.resume", "resume suspended allocations"),
    "requeue": Leaf("work.requeue", "stop allocations and run them again"),
    "checkpoint": CHECKPOINT,
    "resubmit": Leaf("work.resubmit", "submit recorded allocations again, with changes"),
    "update": Leaf("work.update", "change allocations"),
    "timeline": Leaf("web.timeline", "list past, running and predicted allocations by time and node"),
    "history": Leaf("work.history", "show finished allocations"),
    "usage": Leaf("site.usage", "show node hours and GPU hours used"),
    "report": Leaf("site.report", "summarize finished work: hours, wait times, efficiency"),
    "notify": NOTIFY,
    "audit": AUDIT,
    "project": PROJECT,
    "uenv": UENV,
    "nodes": Leaf("node.list", "list nodes"),
    "node": NODE,
    "cache": CACHE,
    "data": DATA,
    "retention": RETENTION,
    "dag": DAG,
    "admin": ADMIN,
    "login": Leaf("identity.login", "log in with the cluster's identity provider"),
    "logout": Leaf("identity.logout", "log out and revoke the token"),
    "whoami": Leaf("identity.whoami", "show the identity the server sees"),
    "web": Leaf("web.open", "open the web page of the cluster in a browser, logged in"),
    "tui": Leaf("web.tui", "show and control the cluster on a live screen of the terminal"),
    "doctor": Leaf("site.doctor", "check the way to the cluster: configuration, ports, clocks, certificates, disk"),
    "up": Leaf("local.up", "start a cluster on this machine"),
    "down": Leaf("local.down", "stop the cluster on this machine"),
    "env": Leaf("local.env", "print shell exports for the local cluster"),
    "compat-aliases": Leaf("shell.compat_aliases", "install the Slurm commands and print the file to source"),
    "completion": Leaf("shell.completion", "print a shell completion script"),
    "completions": Leaf("shell.completion", "alias of `lattice completion`", is_hidden=True),
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


# By their first word, or below a branch by their last.
_READS = frozenset(
    {
        "status",
        "explain",
        "steps",
        "history",
        "usage",
        "report",
        "nodes",
        "timeline",
        "whoami",
        "top",
        "metrics",
        "compare",
        "diag",
        "diagnostics",
    }
)
_READS_BELOW = frozenset({"list", "show", "status", "get", "query", "keys", "events", "inventory", "diff", "metrics"})


def is_read_only(words: tuple[str, ...]) -> bool:
    """Whether the command shows something once, changes nothing and waits for nothing."""
    return words[-1] in _READS_BELOW if len(words) > 1 else words[0] in _READS
