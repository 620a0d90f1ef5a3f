#!/bin/bash
#SBATCH --switches=1@10:00
#SBATCH --contiguous
#SBATCH --nodes=8
srun ./halo
