#!/bin/bash
#SBATCH --tmp=20G
#SBATCH --nice=100
#SBATCH --propagate=NONE
./io
