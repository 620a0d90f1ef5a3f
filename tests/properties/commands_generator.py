"""Random but mostly sensible commands for the state machine, reproducible from a seed.

Knows commands and the records of the state, nothing of the rules: many of its commands are late, foreign or absurd on
purpose.
"""

from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine.levels import NEWEST, OLDEST
from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import Hardware, NodeState, Share
from lattice.core.model.nodes.specifications import Specification
from lattice.core.model.services.scaling import ScalePolicy
from lattice.core.model.site.audit import AuditKey, AuditNote, AuditSeal, key_id
from lattice.core.model.site.deletion import Deletable
from lattice.core.model.site.reservations import AdvanceReservation
from lattice.core.model.site.tenants import SENSITIVE, NodeSharing, OnQuota, Project, Tenant, Vcluster
from lattice.core.model.work.allocations import (
    Allocation,
    AllocationState,
    Cause,
    Hold,
    Lifecycle,
    PartPhase,
    Request,
    RequeuePolicy,
    Restart,
)
from lattice.core.model.work.asked import Asked
from lattice.core.model.work.exposure import Exposed
from lattice.core.model.work.notifications import Notify, NotifyDefault, Occasion
from lattice.core.model.work.steps import StepRecord
from lattice.core.model.work.usage import Usage
from tests.properties.checkpoint_generator import ROOT, draw_checkpoint, draw_way
from tests.properties.dependency_generator import draw_dag, with_dependencies
from tests.properties.drift_generator import draw_drift
from tests.properties.node_generator import AWAY, draw_order, draw_trouble

TENANTS = ("physics", "ml")
USERS = ("ada", "bob", "eve")
MANY = 25
AUDIT_KEY = AuditKey(id=key_id("ab" * 32), public="ab" * 32, server="s1")
NODES = tuple(f"n{i}" for i in range(8))

EXPOSES: tuple[tuple[Exposed, ...], ...] = (
    (),
    (),
    (),
    (Exposed(name="web", port=80, tenant=True),),
    (Exposed(name="web"), Exposed(name="metrics", port=9090, users=("bob",))),
)


class CommandGenerator:
    """Hands out one envelope after the other for the state it looks at."""

    def __init__(self, seed: int, state: State, level: int = NEWEST) -> None:
        self.level = level
        self.random = Random(seed)
        self.state = state
        self.at = 1_000_000
        self.count = 0
        self.sent: list[cmd.Envelope] = []
        self._makers: tuple[tuple[int, Callable[[], cmd.AnyCommand]], ...] = (
            (14, self.submit),
            (40, self.place),
            (18, self.report),
            (4, self.cancel),
            (4, self.tasks_wish),
            (4, self.fold),
            (3, self.notify),
            (6, self.register),
            (6, self.confirm),
            (4, self.node_trouble),
            (5, self.operator),
            (1, self.site_files),
            (2, self.administration),
            (6, self.archive),
            (3, self.dag),
            (2, self.deadline),
            (1, self.lose),
            (4, self.leave),
            (10, self.resize),
            (12, self.revise),
            (3, self.telling),
            (2, self.record_steps),
            (4, self.audit),
            (2, self.drift),
            (8, self.checkpoint),
        )
        self._weights = [weight for weight, _ in self._makers]

    def founding(self) -> list[cmd.Envelope]:
        """Tenants and vClusters to begin with."""
        commands: list[cmd.AnyCommand] = [cmd.SetTenant(tenant=Tenant(name=name), create=True) for name in TENANTS]
        commands.append(cmd.SetVcluster(vcluster=Vcluster(name="batch", default_walltime_s=60), create=True))
        shared = Vcluster(name="shared", node_sharing=NodeSharing.SHARED, default_walltime_s=60)
        commands.append(cmd.SetVcluster(vcluster=shared, create=True))
        secret = Vcluster(name="secret", scheduler=SENSITIVE, default_walltime_s=60)
        commands.append(cmd.SetVcluster(vcluster=secret, create=True))
        commands.append(cmd.SetSetting(key="sensitive.require_wipe", value="true"))
        commands.append(cmd.AddAuditKey(key=AUDIT_KEY))
        commands += [cmd.SetSetting(key="checkpoint.root", value=ROOT)] if self.level > OLDEST else []
        raised = [cmd.RaiseLevel(level=level) for level in range(OLDEST + 1, self.level + 1)]
        return [cmd.Envelope(at=self.at, command=command, actor="root") for command in (*raised, *commands)]

    def next(self) -> cmd.Envelope:
        """The next envelope; now and then one that was sent before. Clears up when there is much."""
        self.at += self.random.choice((0, 0, 1, 10, 500))
        self.count += 1
        if self.sent and self.random.random() < 0.02:
            old = self.random.choice(self.sent)
            return cmd.Envelope(at=self.at, command=old.command, actor=old.actor, command_id=old.command_id)
        _, make = self.random.choices(self._makers, self._weights)[0]
        if len(self.state.allocations) > MANY:
            make = self.random.choice((self.cancel, self.archive, self.archive, make))
        command_id = f"c{self.count}" if self.random.random() < 0.3 else ""
        envelope = cmd.Envelope(at=self.at, command=make(), actor="root", command_id=command_id)
        self.sent.append(envelope)
        del self.sent[:-50]
        return envelope

    def audit(self) -> cmd.AnyCommand:
        """Seals and shortens the audit chain, now and then wrongly."""
        rnd, registry = self.random, self.state.audit
        last = rnd.choice((registry.head.last, registry.head.last, registry.head.sealed + 1))
        seal = AuditSeal(
            first=registry.head.sealed + 1,
            last=last,
            previous=registry.head.sealed_link,
            head=registry.link_at(last) or "",
            key=rnd.choice((AUDIT_KEY.id, AUDIT_KEY.id, AUDIT_KEY.id, "unknown")),
            sealed_at=self.at,
            signature="",
        )
        return rnd.choice(
            (
                cmd.SealAudit(seal=seal),
                cmd.SealAudit(seal=seal),
                cmd.ArchiveAudit(last=rnd.choice((registry.head.sealed, last))),
                cmd.RecordAudit(notes=(AuditNote(kind="login.refused", count=rnd.randrange(1, 9)),)),
            )
        )

    # what users do

    def record_steps(self) -> cmd.AnyCommand:
        steps = tuple(
            StepRecord(step=step, run=1, name="work", nodes=("n1",), tasks=1, started_at=self.at, ended_at=self.at)
            for step in self.random.sample(range(6), 2)
        )
        return cmd.RecordSteps(number=self.some_number(), steps=steps)

    def submit(self) -> cmd.SubmitAllocation:
        rnd = self.random
        nodes = rnd.choice((1, 1, 1, 2, 3, 5))
        request = Request(
            nodes=nodes,
            max_nodes=rnd.choice((0, 0, 0, nodes + 1)),
            cpus=rnd.choice((0, 0, 1, 2, 4)),
            memory_mb=rnd.choice((0, 0, 1024)),
            gpus=rnd.choice((0, 0, 0, 1)),
            features=rnd.choice(((), ("prologue",), ("nvme",))),
            exclude=rnd.choice(((), (), ("n1",))),
            exclusive=rnd.random() < 0.1,
        )
        grouped = rnd.random() < 0.15
        lifecycle = rnd.choice((Lifecycle.BOUNDED, Lifecycle.BOUNDED, Lifecycle.UNBOUNDED))
        is_service = self.level > OLDEST and (lifecycle is Lifecycle.UNBOUNDED or rnd.random() < 0.02)
        scaling = None
        if is_service and not grouped and rnd.random() < 0.5:
            lifecycle, least = Lifecycle.REACTIVE, request.nodes
            scaling = ScalePolicy(min_nodes=least, max_nodes=least + rnd.randrange(3), metric="in_flight", target=1.0)
        command = cmd.SubmitAllocation(
            name="work",
            user=rnd.choice(USERS),
            account="nobody",
            tenant=rnd.choice((*TENANTS, *TENANTS, "strangers")),
            project=rnd.choice(("", "", "p1")),
            vcluster=rnd.choice(("batch", "batch", "shared", "shared", "secret")),
            request=request,
            lifecycle=lifecycle,
            restart=rnd.choice(tuple(Restart)) if is_service else Restart.NONE,
            preemption_class=rnd.choice((0, 5, 5, 10)),
            requeue=rnd.choice(tuple(RequeuePolicy)),
            max_requeue=rnd.choice((0, 1, 3)),
            hold=rnd.choice((Hold.NONE, Hold.NONE, Hold.NONE, Hold.USER)),
            eligible_at=rnd.choice((0, 0, self.at + 300)),
            tasks=((0, rnd.randrange(6), rnd.choice((1, 2))),) if grouped else (),
            concurrency=rnd.choice((0, 1, 2)) if grouped else 0,
            queue_on_quota=rnd.random() < 0.5,
            notify=rnd.choice((None, None, Notify(), self.wish_to_hear())),
            payload=b"what to run",
            asked=rnd.choice((None, None, Asked(partition="main", ntasks=2, comment="of sbatch"))),
            exposes=rnd.choice(EXPOSES),
            scaling=scaling,
            checkpoint=draw_way(rnd) if self.level > OLDEST else None,
            stages_out=self.level > OLDEST and lifecycle is Lifecycle.BOUNDED and rnd.random() < 0.4,
        )
        return with_dependencies(rnd, self.state, command, self.at)

    def checkpoint(self) -> cmd.AnyCommand:
        return draw_checkpoint(self.random, self.state, self.random.choice([*self.state.allocations, 99]))

    def dag(self) -> cmd.AnyCommand:
        rnd = self.random
        dags = list(self.state.dependencies.dags)
        if dags and rnd.random() < 0.3:
            return cmd.CancelDag(number=rnd.choice([*dags, 5]))
        submissions = [self.submit() for _ in range(rnd.randrange(1, 6))]
        return draw_dag(rnd, [replace(each, tenant="physics", queue_on_quota=True) for each in submissions])

    def deadline(self) -> cmd.AnyCommand:
        with_one = [number for number, record in self.state.allocations.items() if record.deadline_at]
        with_one += [number for number, group in self.state.groups.items() if group.template.deadline_at]
        return cmd.EnforceDeadline(number=self.random.choice([*with_one, self.some_number()]))

    def wish_to_hear(self) -> Notify:
        rnd = self.random
        on = tuple(occasion for occasion in Occasion if rnd.random() < 0.4)
        to = rnd.choice((("mail:a@b.c",), ("mail:a@b.c", "webhook:https://h/"), ()))
        return Notify(on=on, to=to, each_task=rnd.random() < 0.3)

    def telling(self) -> cmd.AnyCommand:
        rnd = self.random
        waiting = tuple(self.state.notifications.waiting)[:5]
        default = NotifyDefault(user=rnd.choice(USERS), notify=self.wish_to_hear())
        running = [r for r in self.state.allocations.values() if r.state is AllocationState.RUNNING]
        number, run = (rnd.choice(running).number, 1) if running else (self.some_number(), 1)
        return rnd.choice(
            (
                cmd.SettleNotifications(delivered=waiting[:3], given_up=(*waiting[2:], 0)),
                cmd.SettleNotifications(delivered=waiting),
                cmd.SetNotifyDefault(default=default),
                cmd.NoteTimeLimit(number=number, run=run, percent=rnd.choice((50, 80, 90, 7))),
                cmd.NoteAlert(number=number, run=run, rule=rnd.choice(("gpu_idle", "x")), node="n1", value=3.5),
            )
        )

    def some_number(self) -> int:
        """Mostly the number of something that exists."""
        rnd = self.random
        if rnd.random() < 0.05 or self.state.next_number == 1:
            return rnd.randrange(1, self.state.next_number + 3)
        known = [*list(self.state.allocations)[-30:], *list(self.state.groups)[-5:]]
        groups = [group for group in self.state.groups.values() if group.pending]
        if groups and rnd.random() < 0.3:
            group = rnd.choice(groups)
            return group.number + 1 + rnd.randrange(group.size)
        return rnd.choice(known) if known else 1

    def cancel(self) -> cmd.AnyCommand:
        return cmd.CancelAllocation(number=self.some_number())

    def notify(self) -> cmd.AnyCommand:
        rnd, number = self.random, self.some_number()
        return rnd.choice(
            (
                cmd.HoldAllocation(number=number, hold=rnd.choice((Hold.USER, Hold.OPERATOR))),
                cmd.ReleaseAllocation(number=number, as_operator=True),
                cmd.ReleaseAllocation(number=number),
                cmd.RequeueAllocation(number=number, hold=rnd.random() < 0.3, checkpoint=rnd.random() < 0.3),
                cmd.UpdateAllocation(
                    number=number,
                    walltime_s=rnd.choice((30, 90)),
                    preemption_class=rnd.choice((3, 11)),
                    set_tags=rnd.choice(((), (("k", "v"),))),
                    drop_tags=rnd.choice(((), ("k",))),
                ),
                cmd.ExpireAllocation(number=number, run=1),
                self._pause(number),
                self._watched(number),
                self._rollback(number),
            )
        )

    def _pause(self, number: int) -> cmd.AnyCommand:
        running = [r.number for r in self.state.allocations.values() if r.state is AllocationState.RUNNING]
        chosen = self.random.choice(running) if running and self.random.random() < 0.8 else number
        return cmd.PauseAllocation(number=chosen, is_paused=self.random.random() < 0.5)

    def _watched(self, number: int) -> cmd.AnyCommand:
        running = [r.number for r in self.state.allocations.values() if r.state is AllocationState.RUNNING]
        chosen = self.random.choice(running) if running and self.random.random() < 0.8 else number
        user, step = self.random.choice(("bert", "cleo")), self.random.randrange(2)
        return cmd.ShareTerminal(number=chosen, step=step, user=user, is_shared=self.random.random() < 0.7)

    def _rollback(self, number: int) -> cmd.AnyCommand:
        record = self.state.allocations.get(number)
        starting = [r for r in self.state.allocations.values() if r.state is AllocationState.STARTING]
        record = self.random.choice(starting) if starting else record
        if record is None or not record.parts:
            return cmd.RollbackRun(number=number, run=1, node=self.random.choice(NODES))
        return cmd.RollbackRun(number=record.number, run=record.run, node=self.random.choice(record.parts).node)

    def tasks_wish(self) -> cmd.AnyCommand:
        """Something for a range of tasks, now and then one that does not exist."""
        rnd, groups = self.random, list(self.state.groups.values())[-5:]
        if not groups:
            return self.cancel()
        group = rnd.choice(groups)
        bounds = sorted(rnd.sample(range(group.size + 3), k=min(group.size + 3, rnd.choice((2, 2, 4)))))
        positions = tuple(zip(bounds[::2], bounds[1::2], strict=False))
        number = group.number if rnd.random() < 0.95 else self.some_number()
        hold = rnd.choice((Hold.USER, Hold.OPERATOR))
        return rnd.choice(
            (
                cmd.CancelAllocation(number=number, positions=positions),
                cmd.HoldAllocation(number=number, positions=positions, hold=hold),
                cmd.ReleaseAllocation(number=number, positions=positions, as_operator=rnd.random() < 0.5),
                cmd.RequeueAllocation(
                    number=number, positions=positions, hold=rnd.random() < 0.3, checkpoint=rnd.random() < 0.3
                ),
                cmd.UpdateAllocation(number=number, concurrency=rnd.choice((-1, 0, 1, 3))),
            )
        )

    def fold(self) -> cmd.AnyCommand:
        ended = [record.number for record in self.state.allocations.values() if record.is_terminal]
        return cmd.FoldTasks(numbers=(*ended[:20], self.some_number()))

    def archive(self) -> cmd.AnyCommand:
        ended = [record.number for record in self.state.allocations.values() if record.is_terminal]
        done = [group.number for group in self.state.groups.values() if group.is_done]
        dags = [dag.number for dag in self.state.dependencies.dags.values() if dag.is_ended]
        return cmd.ArchiveAllocations(numbers=(*ended[:20], *done[:5], *dags[:5], self.some_number()))

    # what the scheduler does

    def place(self) -> cmd.AnyCommand:
        rnd, number = self.random, self.some_number()
        waiting = [
            record.number
            for record in self.state.allocations.values()
            if record.state is AllocationState.PENDING and not record.hold and record.eligible_at <= self.at
        ]
        if waiting and rnd.random() < 0.7:
            number = rnd.choice(waiting)
        record = self.state.find(number)
        if record is None or rnd.random() < 0.02:
            return cmd.PlaceAllocation(number=number, run=1, shares=(Share(node=rnd.choice(NODES)),))
        vcluster = self.state.vclusters[record.vcluster]
        whole = vcluster.node_sharing is NodeSharing.EXCLUSIVE or record.request.exclusive
        ready = [node for node in self.state.nodes.values() if node.state is NodeState.READY]
        free = [node for node in ready if (node.is_free if whole else not node.holder)]
        pool = sorted((node.id for node in (free if rnd.random() < 0.9 else ready)), key=lambda _: rnd.random())
        most = max(record.request.nodes, record.request.max_nodes)
        chosen = pool[: rnd.choice((record.request.nodes, most))]
        shares = tuple(self._share(record, node, whole=whole) for node in chosen)
        return cmd.PlaceAllocation(number=number, run=record.run + 1, shares=shares)

    def _share(self, record: Allocation, node: str, *, whole: bool) -> Share:
        if whole:
            return Share(node=node)
        hardware = self.state.nodes[node].hardware
        cpus = record.request.cpus or 1
        memory_mb = record.request.memory_mb or cpus * hardware.memory_mb // max(1, hardware.cpus)
        return Share(node=node, whole=False, cpus=cpus, memory_mb=memory_mb, gpus=record.request.gpus)

    # what nodes do

    def report(self) -> cmd.AnyCommand:
        rnd = self.random
        holding = [record for record in self.state.allocations.values() if record.is_holding]
        if not holding or rnd.random() < 0.05:
            return self._ended(self.some_number(), rnd.randrange(1, 3), rnd.choice(NODES), 1)
        record = rnd.choice(holding)
        part = rnd.choice(record.parts)
        run = record.run if rnd.random() < 0.95 else record.run - 1
        seq = part.seq + rnd.choice((0, 1, 1, 1, 2))
        if rnd.random() < 0.5:
            told = cmd.ReportPart(number=record.number, run=run, node=part.node, seq=seq, phase=PartPhase.RUNNING)
            has_ports = self.level > OLDEST and bool(record.exposes)
            return cmd.StartPart(report=told, ports=(("web", 20_000 + seq),)) if has_ports else told
        ended = self._ended(record.number, run, part.node, seq)
        if record.restart is Restart.NONE or rnd.random() < 0.4:
            return ended
        if isinstance(ended, cmd.EndPart):
            return replace(ended, report=replace(ended.report, phase=PartPhase.RESTARTING))
        return replace(ended, phase=PartPhase.RESTARTING)

    def _ended(self, number: int, run: int, node: str, seq: int) -> cmd.AnyCommand:
        rnd = self.random
        cause = rnd.choice((Cause.EXIT, Cause.EXIT, Cause.EXIT, Cause.SIGNAL, Cause.OOM, Cause.LAUNCH, Cause.WALLTIME))
        report = cmd.ReportPart(
            number=number,
            run=run,
            node=node,
            seq=seq,
            phase=PartPhase.ENDED,
            cause=cause,
            stopped=rnd.random() < 0.2,
            prologue_failed=cause is Cause.LAUNCH and rnd.random() < 0.5,
            exit_code=rnd.choice((0, 0, 3)) if cause is Cause.EXIT else 0,
            signal=9 if cause is Cause.SIGNAL else 0,
            cpu_s=rnd.choice((0.0, 0.5)),
            elapsed_s=rnd.choice((0.0, 0.25, 900.0)),
            peak_memory_mb=7,
        )
        used = Usage(read_bytes=seq, peak_pids=1)
        return cmd.EndPart(report=report, usage=used) if self.level > OLDEST and seq % 2 else report

    def resize(self) -> cmd.AnyCommand:
        """A node more or less for a running allocation, mostly one with instances."""
        rnd = self.random
        services = [record for record in self.state.allocations.values() if record.has_instances and record.is_holding]
        if not services:
            return cmd.ShrinkAllocation(number=self.some_number(), run=1, node=rnd.choice(NODES))
        record = rnd.choice(services)
        run = record.run if rnd.random() < 0.95 else record.run - 1
        if rnd.random() < 0.4:
            node = rnd.choice(record.nodes) if rnd.random() < 0.95 else rnd.choice(NODES)
            return cmd.ShrinkAllocation(number=record.number, run=run, node=node, replace=rnd.random() < 0.5)
        free = [node.id for node in self.state.nodes.values() if node.state is NodeState.READY and not node.holder]
        share = self._share(record, rnd.choice(free or list(self.state.nodes)), whole=record.shares[0].whole)
        return cmd.GrowAllocation(
            number=record.number, run=run, share=share, size=rnd.choice((0, 0, len(record.shares) + 1))
        )

    def revise(self) -> cmd.AnyCommand:
        """A step of an update of a service, sensible or not."""
        rnd = self.random
        services = [record for record in self.state.allocations.values() if record.has_instances]
        if not services:
            return cmd.EndRollout(number=self.some_number(), revision=1)
        record = rnd.choice(services)
        rollout, number = record.rollout, record.number
        if rollout is None or not rollout.is_open:
            base = record.revision if rnd.random() < 0.9 else record.revision + 1
            if rnd.random() < 0.6:
                payload = bytes([rnd.randrange(4)])
                return cmd.ReviseService(number=number, base=base, payload=payload, probed=rnd.random() < 0.5)
            return cmd.RollBackService(number=number, to=rnd.choice((None, 0, 1, record.revision)))
        if rnd.random() < 0.5 and record.parts:
            node = rnd.choice(record.parts).node
            return cmd.RenewInstance(number=number, run=record.run, node=node, revision=record.revision)
        return rnd.choice(
            (
                cmd.TurnRollout(number=number, revision=rollout.target, reason="not ready"),
                cmd.EndRollout(number=number, revision=record.revision),
                cmd.EndRollout(number=number, revision=record.revision),
                cmd.RollBackService(number=number),
            )
        )

    def lose(self) -> cmd.AnyCommand:
        return cmd.LosePart(number=self.some_number(), run=self.random.randrange(1, 3), node=self.random.choice(NODES))

    def leave(self) -> cmd.AnyCommand:
        copying = [each for each in self.state.allocations.values() if each.is_running and each.stages_out]
        if not copying or self.level == OLDEST:
            return self.lose()
        record = self.random.choice(copying)
        return cmd.LeaveNodes(number=record.number, run=record.run, node=self.random.choice(record.nodes))

    def register(self) -> cmd.AnyCommand:
        rnd = self.random
        hardware = Hardware(
            cpus=rnd.choice((4, 4, 2)),
            memory_mb=4096,
            gpus=rnd.choice((0, 2)),
            features=rnd.choice(((), ("nvme",))),
            group=rnd.choice(("g1", "g2")),
        )
        away = [
            name for name in NODES if name not in self.state.nodes or self.state.nodes[name].state is NodeState.DOWN
        ]
        return cmd.RegisterNode(node=rnd.choice(away or NODES), hardware=hardware, boot_id=str(rnd.randrange(3)))

    def confirm(self) -> cmd.AnyCommand:
        booting = [node.id for node in self.state.nodes.values() if node.state is NodeState.BOOTING]
        return cmd.ConfirmNode(node=self.random.choice(booting or NODES))

    def node_trouble(self) -> cmd.AnyCommand:
        owing = [node.id for node in self.state.nodes.values() if node.wipe is not None]
        return draw_trouble(self.random, self.state, self.random.choice((*NODES, *owing * 8)))

    def drift(self) -> cmd.AnyCommand:
        return draw_drift(self.random, self.state, NODES)

    # what operators and administrators do

    def site_files(self) -> cmd.AnyCommand:
        rnd = self.random
        partitions = ((0,), (1, 2), (0, 3), (4,), (), (32,))
        wanted = [Specification(cpus=rnd.choice((0, 2, 2, 4, 8)), partitions=rnd.choice(partitions)) for _ in range(2)]
        names = rnd.sample((*NODES, "lx1", "lx2"), 4)
        return cmd.ImportNodes(
            specifications=tuple(wanted),
            nodes=tuple((name, rnd.choice((0, 1, 0, 1, 0, 1, 0, 1, 2))) for name in names),
            settings=rnd.choice(((), (("node.heartbeat_interval_s", rnd.choice(("5", "often"))),))),
        )

    def operator(self) -> cmd.AnyCommand:
        away = [node.id for node in self.state.nodes.values() if node.state in AWAY]
        return draw_order(self.random, self.state, self.random.choice((*NODES, *away * 4)))

    def deletion(self) -> cmd.AnyCommand:
        what = self.random.choice((Deletable.PROJECT, Deletable.NODE))
        away = [node.id for node in self.state.nodes.values() if node.state in AWAY]
        name = "p1" if what is Deletable.PROJECT else self.random.choice((*NODES, *away * 2))
        return cmd.DeleteRecord(what=what, name=name, tenant=self.random.choice(tuple(self.state.tenants)))

    def reservation(self) -> cmd.AnyCommand:
        rnd = self.random
        name = rnd.choice(("upgrade", "course"))
        if rnd.random() < 0.5:
            return cmd.DeleteReservation(name=name)
        start = self.at + rnd.choice((-5_000, 10_000, 100_000))
        reservation = AdvanceReservation(
            name=name,
            start_at=start,
            end_at=start + rnd.choice((1_000, 20_000)),
            nodes=rnd.choice(((), ("n1", "n2"), ("n9",))),
            users=rnd.choice(((), ("ada",))),
            repeat_s=rnd.choice((0, 0, 60)),
        )
        return cmd.SetReservation(reservation=reservation, create=rnd.random() < 0.7)

    def administration(self) -> cmd.AnyCommand:
        rnd = self.random
        tenant = Tenant(
            name=rnd.choice(TENANTS),
            max_nodes=rnd.choice((None, 2, 6)),
            max_concurrent_allocations=rnd.choice((None, 2, 4)),
            max_running_per_user=rnd.choice((None, 2)),
            on_quota=rnd.choice(tuple(OnQuota)),
            max_class=rnd.choice((10, 5)),
        )
        vcluster = Vcluster(
            name=rnd.choice(("batch", "shared")),
            node_sharing=rnd.choice(tuple(NodeSharing)),
            default_walltime_s=60,
            max_nodes=rnd.choice((0, 4)),
            nodes=rnd.choice(((), (), NODES[:6])),
            is_up=rnd.random() < 0.9,
        )
        return rnd.choice(
            (
                cmd.SetTenant(tenant=tenant),
                cmd.SetVcluster(vcluster=vcluster),
                cmd.SetProject(project=Project(tenant=tenant.name, name="p1", max_nodes=3), create=rnd.random() < 0.5),
                cmd.SetSetting(key="archive.after_s", value=str(rnd.randrange(9))),
                self.reservation(),
                self.deletion(),
                cmd.RecordSnapshot(index=self.count, digest="d", sha256="s"),
            )
        )
