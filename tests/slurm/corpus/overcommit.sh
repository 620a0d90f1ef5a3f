#!/bin/bash
#SBATCH --overcommit
#SBATCH --oversubscribe
#SBATCH --ntasks=8
srun ./many
