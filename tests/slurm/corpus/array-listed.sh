#!/bin/bash
#SBATCH -a 1,3,5-9:2
#SBATCH -o %4a.log
echo "$SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT"
