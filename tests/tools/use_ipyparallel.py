"""Starts engines through ipyparallel's Slurm launcher; prints one line of JSON per outcome."""

import json
import sys

import ipyparallel


def main() -> None:
    cluster = ipyparallel.Cluster(
        engines="slurm", controller="local", n=2, profile_dir=sys.argv[1], controller_ip="127.0.0.1"
    )
    with cluster as client:
        client.wait_for_engines(2, timeout=80)
        found = client[:].apply_sync(pow, 2, 5)
    sys.stdout.write(json.dumps({"what": "engines", "results": found}) + "\n")


if __name__ == "__main__":
    main()
