"""What one vendor's tools say of its GPUs."""

from msgspec import Struct
from msgspec.structs import replace

from lattice.core.model.nodes.gpus import GpuLink
from lattice.core.model.nodes.inventory import Gpu


class FoundGpus(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`drivers` by vendor. Indices are those of the tools, which begin with 0."""

    gpus: tuple[Gpu, ...] = ()
    links: tuple[GpuLink, ...] = ()
    drivers: dict[str, str] = {}
    sources: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    def joined(self, other: "FoundGpus") -> "FoundGpus":
        """Both, those of the other numbered behind these."""
        shift = max((gpu.index for gpu in self.gpus), default=-1) + 1
        return FoundGpus(
            gpus=(*self.gpus, *(replace(gpu, index=gpu.index + shift) for gpu in other.gpus)),
            links=(*self.links, *(_shifted(link, shift) for link in other.links)),
            drivers={**self.drivers, **other.drivers},
            sources=(*self.sources, *other.sources),
            problems=(*self.problems, *other.problems),
        )


def _shifted(link: GpuLink, shift: int) -> GpuLink:
    return replace(link, gpu_a=link.gpu_a + shift, gpu_b=link.gpu_b + shift)


def has_display_or_accelerator(pci_class: str) -> bool:
    """Whether a PCI class is that of a graphics card, a 3D controller or a processing accelerator."""
    return pci_class.startswith(("0x0300", "0x0302", "0x0380", "0x1200"))
