#!/bin/bash
#SBATCH --job-name=sweep
#SBATCH --array=0-9
#SBATCH --output=sweep_%A_%a.out
#SBATCH --time=10
python run.py --seed "$SLURM_ARRAY_TASK_ID"
