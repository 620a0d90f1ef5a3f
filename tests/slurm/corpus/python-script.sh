#!/usr/bin/env python3
#SBATCH --job-name=py
#SBATCH --time=5
import os
print(os.environ["SLURM_JOB_ID"])
