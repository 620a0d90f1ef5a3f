"""ReFrame's view of a cluster with the Slurm commands."""

site_configuration = {
    "systems": [
        {
            "name": "lattice",
            "hostnames": [".*"],
            "partitions": [
                {"name": "default", "scheduler": "slurm", "launcher": "srun", "environs": ["builtin"], "max_jobs": 4}
            ],
        }
    ],
}
