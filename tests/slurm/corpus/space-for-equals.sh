#!/bin/bash
#SBATCH --nodes 2
#SBATCH --job-name spaced
#SBATCH --time 00:20:00
srun ./x
