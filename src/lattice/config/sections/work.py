"""Submissions and the work that comes of them."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from lattice.config.sections.values import Name, Period


class SchedulingSection(Struct, frozen=True, kw_only=True):
    cycle_interval_s: Period = 5.0  # longest time between two scheduling cycles
    merge_ms: Annotated[int, Meta(ge=0, le=10_000)] = 50  # milliseconds during which events are gathered before a cycle
    energy_prices: str = ""  # CSV file or URL with energy prices; empty = prices are not known
    # JSON file or URL that says what is left of tenants' budgets; it beats the cluster's own ledger. Empty = the ledger counts
    budgets: str = ""
    budgets_token_file: str = ""  # file with the token that the URL wants; empty = none


class DefaultsSection(Struct, frozen=True, kw_only=True):
    """What the first start creates, and what a submission gets that names nothing."""

    walltime: Period = 3600.0  # walltime of submissions that name none
    tenant: Name = "default"  # tenant that the first start creates; used where none is named
    vcluster: Name = "default"  # vCluster that the first start creates; used where none is named


class IntentSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a submission has to be like; everything that is given has to hold. Lists: one of them."""

    tenant: str | list[str] = []  # the submission's tenant
    user: str | list[str] = []  # the submission's user
    project: str | list[str] = []  # the submission's project
    lifecycle: Literal["", "bounded", "unbounded", "reactive"] = ""  # the submission's lifecycle; empty = any
    tags: dict[str, str] = {}  # tags that the submission has, with these values
    min_nodes: int | None = None  # at least this many nodes
    max_nodes: int | None = None  # at most this many nodes
    min_gpus: int | None = None  # at least this many GPUs per node
    max_gpus: int | None = None  # at most this many GPUs per node
    min_walltime: str | float | None = None  # at least this walltime
    max_walltime: str | float | None = None  # at most this walltime


class RuleSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    vcluster: Name  # vCluster that the rule chooses
    when: IntentSection = IntentSection()
    name: str = ""  # shown to the user as `chosen_by`


class FilterSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program of the site that sees every submission first: `command` with its arguments, or `python` as module:function."""

    command: list[str] = []  # program and arguments that judge submissions; empty = none
    # function that judges submissions, `module:function`; empty = none
    python: Annotated[str, Meta(pattern=r"^([A-Za-z_][\w.]*:[A-Za-z_]\w*)?$")] = ""
    timeout: Period = 5.0  # a filter that takes longer has failed
    at_once: Annotated[int, Meta(ge=1, le=256)] = 8  # filters that run at the same time
    # what happens to a submission when the filter fails, times out or gives no valid answer
    on_failure: Literal["refuse", "accept"] = "refuse"


class SubmissionSection(Struct, frozen=True, kw_only=True):
    """`rules` choose the vCluster of a submission that names none; the first that holds counts."""

    rules: list[RuleSection] = []
    filter: FilterSection = FilterSection()


class SlurmSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names that the Slurm commands use. No `partitions` = every vCluster is one; `qos` maps names to preemption classes."""

    # name of the cluster in Slurm commands, and beside its data: servers refuse the data of a cluster with another name
    cluster_name: Name = "lattice"
    # partition names and their vClusters; empty = every vCluster is a partition of its own name
    partitions: dict[str, Name] = {}
    # QoS names and their preemption classes; empty = low 2, normal 5, high 8
    qos: dict[str, Annotated[int, Meta(ge=0, le=10)]] = {}
    # whether the shell of salloc runs on the first node of the allocation; a command that salloc names runs where salloc does
    salloc_on_node: bool = False


class CompatSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`set_slurm_env` = native submissions get SLURM_* variables, too; those of the Slurm commands always do."""

    set_slurm_env: bool = False  # whether native submissions get SLURM_* variables; those of Slurm commands always do


class RegistrySection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A registry that speaks OCI distribution, from which `--image HOST/REPOSITORY:TAG` may be taken."""

    # as users write it: HOST or HOST:PORT
    host: Annotated[str, Meta(pattern=r"^(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9.-]+)(:\d{1,5})?$")]
    username: str = ""  # account of the servers there; empty = none
    password: str = ""  # its password or access token, by reference: file://, env:// or vault://
    plain_http: bool = False  # asked without TLS, as a registry on the same machine always is


class ImagesSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where names of images (`--uenv`) come from."""

    # directory with images as NAME/VERSION/TAG.squashfs, under the same path on servers and nodes; empty = paths only
    directory: str = ""
    # in its place a registry, oci://HOST/PREFIX with PREFIX/NAME/VERSION:TAG, or a web server, https://HOST/PATH with SHA256SUMS
    url: Annotated[str, Meta(pattern=r"^$|^(oci|https?)://[A-Za-z0-9.\[\]:-]+(/[A-Za-z0-9._/-]*)?$")] = ""
    keys: list[str] = []  # files with public keys (PEM, Ed25519 or ECDSA) that sign images
    registries: list[RegistrySection] = []  # registries from which containers may be taken; nodes have --registries


class CheckpointSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where work writes its checkpoints."""

    # first value of the setting `checkpoint.root`: a directory of every node; empty = none until it is set
    root: Annotated[str, Meta(max_length=512)] = ""
