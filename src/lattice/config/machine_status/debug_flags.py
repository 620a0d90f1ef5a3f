"""Debug flags of a SlurmConf: which parts of a server each lets tell more."""

FLAGS: dict[str, tuple[str, ...]] = {
    "init": ("lattice.daemons", "lattice.config", "lattice.quorum"),
    "msg": ("lattice.api.grpc", "lattice.control.nodes.sessions", "lattice.control.collectors.tree"),
    "node": ("lattice.control.nodes.watch", "lattice.control.nodes.hooks", "lattice.control.nodes.wiping"),
    "sched": ("lattice.control.work.scheduling", "lattice.control.work.dispatch"),
    "api": ("lattice.api",),
    "all": ("lattice",),
}


def loggers_of(flags: str) -> frozenset[str]:
    """Names of the loggers that the flags, apart by commas, switch to debug; unknown flags switch none."""
    return frozenset(name for flag in flags.split(",") for name in FLAGS.get(flag.strip(), ()))
