#!/bin/bash
#SBATCH --array=0-100:10
#SBATCH --time=0:30:00
./point "$SLURM_ARRAY_TASK_ID"
