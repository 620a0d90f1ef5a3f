"""Which devices of this node the tasks of each living step have: chosen at the launch, free again at its end."""

from collections.abc import Callable

from lattice.agent.runs.devices import Devices, DeviceTable
from lattice.agent.runs.launch import LaunchRefused
from lattice.core.model.work.binding import BadBinding, TaskDevices, bind_cpus, bind_gpus
from lattice.ports.nodes.agents import StepKey
from lattice.ports.nodes.steps import LaunchOrder


class Bindings:
    """`is_open` tells whether a step lives: one that does not holds nothing any more."""

    def __init__(self, devices: DeviceTable, is_open: Callable[[StepKey], bool]) -> None:
        self._devices = devices
        self._is_open = is_open
        self._held: dict[StepKey, frozenset[int]] = {}

    def recall(self, key: StepKey, cpus: tuple[int, ...]) -> None:
        """A step that an earlier agent launched has these."""
        if cpus:
            self._held[key] = frozenset(cpus)

    def bind(self, launch: LaunchOrder, given: Devices) -> list[TaskDevices]:
        """What each task has; raises LaunchRefused."""
        self._held = {key: cpus for key, cpus in self._held.items() if self._is_open(key) and key != launch.key}
        others = (cpus for key, cpus in self._held.items() if key.of_run == launch.key.of_run)
        taken = frozenset[int]() if launch.overlap else frozenset[int]().union(*others)
        memory, count = self._devices.memory, len(launch.tasks)
        cpus = self._devices.cpus_of(given, launch.base)
        kind = launch.cpu_bind or ("none" if launch.overlap else "")
        try:
            task_cpus = bind_cpus(kind, memory, cpus, taken, count, launch.cpus_per_task or 1)
            task_gpus = bind_gpus(launch.gpu_bind, memory, given.gpus or (), task_cpus, launch.gpus_per_task)
        except BadBinding as error:
            raise LaunchRefused(str(error)) from error
        if not launch.overlap:
            self.recall(launch.key, tuple(cpu for each in task_cpus for cpu in each))
        return [TaskDevices(cpus=own, gpus=gpus) for own, gpus in zip(task_cpus, task_gpus, strict=True)]
