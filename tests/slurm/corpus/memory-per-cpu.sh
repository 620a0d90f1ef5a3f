#!/bin/bash
#SBATCH --ntasks=16
#SBATCH --mem-per-cpu=2000
#SBATCH --time=30
srun ./mem
