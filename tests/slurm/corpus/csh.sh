#!/bin/csh -f
#SBATCH --job-name=csh
#SBATCH --ntasks=1
echo $SLURM_JOB_ID
