#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=8 --time=20
srun ./x
