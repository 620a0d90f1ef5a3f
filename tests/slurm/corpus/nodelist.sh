#!/bin/bash
#SBATCH --nodelist=c[3-4]
#SBATCH -N 2
srun hostname
