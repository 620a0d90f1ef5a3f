#!/bin/bash
#SBATCH -Jjoined -N2 -n8 -t1-0 -pnormal
srun ./a.out
