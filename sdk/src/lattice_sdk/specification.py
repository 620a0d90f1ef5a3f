"""An allocation in one flat record, for those who write it by hand."""

from collections.abc import Mapping

from msgspec import Struct

from lattice_sdk.models.moments import Duration, Moment
from lattice_sdk.models.notifications import NotifyRequest
from lattice_sdk.models.records import Constraints, LifecycleRequest, OutputFiles, ResourceRequest, Submission
from lattice_sdk.models.runs import ContainerOptions, ExposedPort


class AllocationSpec(Struct, frozen=True, kw_only=True):
    """The everyday part of a `Submission`, without its sections.

    `entrypoint` runs as it is when it is a list, under sh -c when it is a text; `nodes` may be a pair (fewest, most); figures are per
    node. `constraints` are those of `Constraints`, by name. `walltime` is a timedelta or a text such as 30m; `begin` and `deadline`
    are times or texts, local without a zone.
    """

    entrypoint: list[str] | str | None = None
    script: str | None = None
    script_args: list[str] = []
    name: str = ""
    nodes: int | tuple[int, int] = 1
    cpus: int = 0
    memory: str = ""
    gpus: int = 0
    exclusive: bool = False
    constraints: Mapping[str, object] | Constraints = {}
    walltime: Duration | None = None
    preemption_class: int | None = None
    priority: str | int | None = None
    lifecycle: str = "bounded"
    requeue: str | None = None
    max_requeue: int | None = None
    tenant: str = ""
    project: str = ""
    vcluster: str = ""
    tags: dict[str, str] = {}
    environment: dict[str, str] = {}
    uenv: str = ""
    view: str = ""
    tools_uenv: str = ""
    image: str = ""
    container: ContainerOptions | None = None
    cwd: str = ""
    per_node: bool | None = None
    hold: bool = False
    begin: Moment | None = None
    deadline: Moment | None = None
    depends_on: str = ""
    output: OutputFiles | None = None
    tasks: str | None = None
    notify: NotifyRequest | None = None
    expose: list[ExposedPort] = []

    def submission(self) -> Submission:
        """The same as the API takes it. Raises TypeError for a constraint that does not exist."""
        fewest, most = self.nodes if isinstance(self.nodes, tuple) else (self.nodes, 0)
        named = self.constraints
        return Submission(
            entrypoint=self.entrypoint,
            script=self.script,
            script_args=self.script_args,
            name=self.name,
            tenant=self.tenant,
            project=self.project,
            vcluster=self.vcluster,
            tags=self.tags,
            environment=self.environment,
            uenv=self.uenv,
            view=self.view,
            tools_uenv=self.tools_uenv,
            image=self.image,
            container=self.container,
            cwd=self.cwd,
            priority=self.priority,
            per_node=self.per_node,
            hold=self.hold,
            begin=self.begin,
            deadline=self.deadline,
            depends_on=self.depends_on,
            output=self.output,
            tasks=self.tasks,
            notify=self.notify,
            expose=self.expose,
            resources=ResourceRequest(
                nodes=fewest,
                max_nodes=most,
                cpus=self.cpus,
                memory=self.memory,
                gpus=self.gpus,
                exclusive=self.exclusive,
                constraints=named if isinstance(named, Constraints) else Constraints(**named),  # type: ignore[arg-type]
            ),
            lifecycle=LifecycleRequest(
                type=self.lifecycle,
                walltime=self.walltime,
                preemption_class=self.preemption_class,
                requeue=self.requeue,
                max_requeue=self.max_requeue,
            ),
        )
