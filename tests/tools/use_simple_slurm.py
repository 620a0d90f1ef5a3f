"""Submits through simple-slurm; prints one line of JSON per outcome."""

import json
import subprocess
import sys
import time

from simple_slurm import Slurm


def main() -> None:
    slurm = Slurm(array="1-2", job_name="simple", output=f"{sys.argv[1]}/%A_%a.out", time="0:05:00")
    number = slurm.sbatch(f"echo task {Slurm.SLURM_ARRAY_TASK_ID}", shell="/bin/bash")  # noqa: S604 - the script's interpreter
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        listing = subprocess.run(
            ["sacct", "-XnPo", "State", "-j", str(number)], capture_output=True, text=True, check=True
        )
        if listing.stdout == "COMPLETED\nCOMPLETED\n":
            break
        time.sleep(0.2)
    sys.stdout.write(json.dumps({"what": "array", "id": int(number), "states": listing.stdout.split()}) + "\n")


main()
