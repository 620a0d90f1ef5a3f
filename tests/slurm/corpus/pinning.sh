#!/bin/bash
#SBATCH --ntasks=64
#SBATCH --ntasks-per-core=1
#SBATCH --ntasks-per-socket=16
#SBATCH --hint=nomultithread
#SBATCH --distribution=block:cyclic
#SBATCH --threads-per-core=1
srun --cpu-bind=cores ./pinned
