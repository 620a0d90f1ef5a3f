#!/bin/bash
#SBATCH -J relax
#SBATCH -p normal
#SBATCH -N 2
#SBATCH -n 128
#SBATCH -t 12:00:00
#SBATCH -o relax.o%j
#SBATCH -e relax.e%j
#SBATCH -A chem
srun ./relax.x
