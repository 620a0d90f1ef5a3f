"""What the flags about a container ask for, of work and of a step alike. Apart from what reads images, which most commands never need."""

from typing import Protocol

from lattice_sdk.models.runs import ContainerOptions


class ContainerFlags(Protocol):
    @property
    def image(self) -> str: ...
    @property
    def mount(self) -> tuple[str, ...]: ...
    @property
    def container_writable(self) -> bool: ...
    @property
    def container_workdir(self) -> str: ...
    @property
    def no_home(self) -> bool: ...
    @property
    def container_name(self) -> str: ...


def asked_container(flags: ContainerFlags) -> ContainerOptions | None:
    """None where no flag asks for a container."""
    wanted = ContainerOptions(
        mounts=list(flags.mount),
        writable=flags.container_writable,
        workdir=flags.container_workdir,
        no_home=flags.no_home,
        name=flags.container_name,
    )
    return wanted if flags.image or wanted != ContainerOptions() else None
