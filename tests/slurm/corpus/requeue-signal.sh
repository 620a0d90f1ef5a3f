#!/bin/bash
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
#SBATCH --time=4:00:00
trap 'touch checkpoint; scontrol requeue $SLURM_JOB_ID' USR1
./solver & wait
