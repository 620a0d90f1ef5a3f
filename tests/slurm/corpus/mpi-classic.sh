#!/bin/bash
#SBATCH --job-name=mpi
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=32
#SBATCH --time=1-00:00:00
#SBATCH --partition=normal
#SBATCH --account=chem
#SBATCH --output=mpi-%j.log
#SBATCH --error=mpi-%j.err
module purge
module load openmpi
mpirun ./solver input.dat
