#!/bin/bash
#SBATCH --ntasks=1
#SBATCH hetjob
#SBATCH --ntasks=2
srun ./x
