"""Lines and columns of sacctmgr and sshare: accounts, users, associations, clusters, qualities of service, fair share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lattice.slurm.faults import Fault
from lattice.slurm.listings.listing import ALIKE, ListingLine, flag, read_line, value
from lattice.slurm.submit.getopt import Grammar
from lattice.slurm.text.formats import Column, Field, parse_sized

SACCTMGR = Grammar(
    "sacctmgr",
    (
        *(option for option in ALIKE if option.name != "help"),
        flag("help", "h"),
        flag("associations", "s"),
        flag("immediate", "i"),
        flag("noheader", "n"),
        flag("oneliner", "o"),
        flag("parsable", "p"),
        flag("parsable2", "P"),
        flag("quiet", "Q"),
        flag("readonly", "r"),
    ),
)
SSHARE = Grammar(
    "sshare",
    (
        *ALIKE,
        flag("all", "a"),
        value("accounts", "A", "account"),
        value("clusters", "M", "cluster"),
        value("format", "o"),
        flag("helpformat", "e"),
        flag("long", "l"),
        flag("noheader", "n"),
        flag("parsable", "p"),
        flag("parsable2", "P"),
        flag("partition", "m"),
        value("users", "u", "user"),
        flag("Users", "U"),
    ),
)


def _columns(*rows: tuple[str, str, int]) -> dict[str, Column]:
    return {name.lower(): Column(name, header, width) for name, header, width in rows}


_LIMITS = (
    ("Share", "Share", 9),
    ("Priority", "Priority", 10),
    ("GrpJobs", "GrpJobs", 7),
    ("GrpTRES", "GrpTRES", 13),
    ("GrpSubmit", "GrpSubmit", 9),
    ("GrpWall", "GrpWall", 11),
    ("GrpTRESMins", "GrpTRESMins", 13),
    ("MaxJobs", "MaxJobs", 7),
    ("MaxTRES", "MaxTRES", 13),
    ("MaxTRESPerNode", "MaxTRESPerNode", 14),
    ("MaxNodes", "MaxNodes", 8),
    ("MaxSubmitJobs", "MaxSubmit", 9),
    ("MaxWall", "MaxWall", 11),
    ("MaxTRESMins", "MaxTRESMins", 13),
    ("QOS", "QOS", 20),
    ("DefaultQOS", "Def QOS", 9),
    ("GrpTRESRunMins", "GrpTRESRunMin", 13),
)
_ASSOCIATION = (
    ("Cluster", "Cluster", 10),
    ("Account", "Account", 10),
    ("User", "User", 10),
    ("Partition", "Partition", 10),
    ("ParentName", "Par Name", 10),
    ("ID", "ID", 6),
    *_LIMITS,
)
ENTITIES: Mapping[str, Mapping[str, Column]] = {
    "association": _columns(*_ASSOCIATION),
    "account": _columns(
        ("Account", "Account", 10),
        ("Description", "Descr", 20),
        ("Organization", "Org", 20),
        *_ASSOCIATION[:1],
        *_ASSOCIATION[2:],
    ),
    "user": _columns(
        ("User", "User", 10),
        ("DefaultAccount", "Def Acct", 10),
        ("AdminLevel", "Admin", 9),
        *_ASSOCIATION[:2],
        *_ASSOCIATION[3:],
    ),
    "cluster": _columns(
        ("Cluster", "Cluster", 10),
        ("ControlHost", "ControlHost", 15),
        ("ControlPort", "ControlPort", 12),
        ("RPC", "RPC", 5),
        *_LIMITS,
    ),
    "qos": _columns(
        ("Name", "Name", 10),
        ("Priority", "Priority", 10),
        ("GraceTime", "GraceTime", 10),
        ("Preempt", "Preempt", 10),
        ("PreemptMode", "PreemptMode", 11),
        ("Flags", "Flags", 20),
        ("UsageFactor", "UsageFactor", 11),
        ("MaxWall", "MaxWall", 11),
        ("MaxTRESPU", "MaxTRESPU", 13),
        ("MaxJobsPU", "MaxJobsPU", 9),
        ("MaxSubmitPU", "MaxSubmitPU", 11),
        ("GrpTRES", "GrpTRES", 13),
        ("GrpJobs", "GrpJobs", 7),
        ("ID", "ID", 6),
        ("Description", "Descr", 20),
    ),
}
_USUAL = {
    "association": "Cluster,Account,User,Partition,Share,Priority,GrpJobs,GrpTRES,GrpSubmit,GrpWall,GrpTRESMins,MaxJobs,MaxTRES,"
    "MaxTRESPerNode,MaxSubmitJobs,MaxWall,MaxTRESMins,QOS,DefaultQOS,GrpTRESRunMins",
    "account": "Account,Description,Organization",
    "user": "User,DefaultAccount,AdminLevel",
    "cluster": "Cluster,ControlHost,ControlPort,RPC,Share,GrpJobs,GrpTRES,GrpSubmit,MaxJobs,MaxTRES,MaxSubmitJobs,MaxWall,QOS,DefaultQOS",
    "qos": "Name,Priority,GraceTime,Preempt,PreemptMode,Flags,UsageFactor,MaxWall,MaxTRESPU,MaxJobsPU,MaxSubmitPU",
}
_WITH_ASSOCIATIONS = ",Cluster,Account,Partition,Share,MaxJobs,MaxNodes,MaxSubmitJobs,MaxWall,QOS,DefaultQOS"
_ALSO = {"names": "name", "users": "user", "accounts": "account", "clusters": "cluster"}

SHARES: Mapping[str, Column] = _columns(
    ("Account", "Account", -20),
    ("User", "User", 10),
    ("RawShares", "RawShares", 10),
    ("NormShares", "NormShares", 11),
    ("RawUsage", "RawUsage", 11),
    ("NormUsage", "NormUsage", 11),
    ("EffectvUsage", "EffectvUsage", 13),
    ("FairShare", "FairShare", 10),
    ("LevelFS", "LevelFS", 10),
    ("Cluster", "Cluster", 10),
    ("Partition", "Partition", 12),
    ("GrpTRESMins", "GrpTRESMins", 30),
    ("TRESRunMins", "TRESRunMins", 30),
)
SHARES_DEFAULT = "Account,User,RawShares,NormShares,RawUsage,EffectvUsage,FairShare"
SHARES_LONG = (
    "Account,User,RawShares,NormShares,RawUsage,NormUsage,EffectvUsage,FairShare,LevelFS,GrpTRESMins,TRESRunMins"
)


@dataclass(frozen=True, kw_only=True)
class Question:
    """`show ENTITY [where] [NAME] [key=value ...] [format=...]`."""

    line: ListingLine
    verb: str
    entity: str = ""
    fields: tuple[Field, ...] = ()
    conditions: Mapping[str, frozenset[str]]

    def takes(self, key: str, text: str) -> bool:
        wanted = self.conditions.get(key)
        return wanted is None or text in wanted


def read_question(argv: Sequence[str]) -> Question:
    """A line of sacctmgr. Raises Fault for an invalid one."""
    line = read_line(SACCTMGR, argv)
    words = list(line.words)
    verb = words.pop(0).lower() if words else ""
    if verb not in ("show", "list"):
        return Question(line=line, verb=verb, conditions={})
    if not words:
        raise Fault(
            " No valid entity in list command",
            ' Input line must include "Account", "Association", "Cluster",',
            ' "QOS" or "User"',
        )
    entity = _entity(words.pop(0))
    formats, conditions = [], dict[str, frozenset[str]]()
    is_with_associations = line.has("associations")
    for word in words:
        key, equals, text = word.partition("=")
        key = key.lower()
        if key in ("where", "set"):
            continue
        if key in ("withassoc", "withassociations"):
            is_with_associations = True
        elif equals and "format".startswith(key[:6]) and len(key) > 1:
            formats.append(text)
        elif equals:
            conditions[_ALSO.get(key, key)] = frozenset(filter(None, text.split(",")))
        else:
            name = "name" if entity in ("qos", "cluster") else entity
            conditions[name] = frozenset(filter(None, word.split(",")))
    usual = _USUAL[entity] + (_WITH_ASSOCIATIONS if is_with_associations and entity in ("user", "account") else "")
    fields = _fields(",".join(formats) or usual, ENTITIES[entity])
    return Question(line=line, verb=verb, entity=entity, fields=fields, conditions=conditions)


def _entity(word: str) -> str:
    name = word.lower().rstrip("s") if word.lower() != "qos" else "qos"
    found = next((each for each in ENTITIES if len(name) > 1 and each.startswith(name)), "")
    if not found:
        raise Fault(
            " No valid entity in list command",
            ' Input line must include "Account", "Association", "Cluster",',
            ' "QOS" or "User"',
        )
    return found


def _fields(text: str, columns: Mapping[str, Column]) -> tuple[Field, ...]:
    """Columns by any prefix of their names."""
    fields: list[Field] = []
    for item in filter(None, text.split(",")):
        name, percent, width = item.partition("%")
        key = name.lower()
        full = key if key in columns else next((each for each in columns if each.startswith(key)), "")
        if not full:
            raise Fault(f" Unknown field '{name}'")
        fields += parse_sized(full + percent + width, columns)
    return tuple(fields)


def share_fields(line: ListingLine) -> tuple[Field, ...]:
    return _fields(line.last("format") or (SHARES_LONG if line.has("long") else SHARES_DEFAULT), SHARES)
