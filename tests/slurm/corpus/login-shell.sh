#!/bin/bash -l
#SBATCH --job-name=login
#SBATCH --get-user-env
#SBATCH --export=NONE
module load vasp
srun vasp_std
