#!/bin/bash
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=32
#SBATCH --mem=64G
#SBATCH --time=2:00:00
export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}
./threaded
