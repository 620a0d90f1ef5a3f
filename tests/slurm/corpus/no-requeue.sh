#!/bin/bash
#SBATCH --no-requeue
#SBATCH --exclude=c[1-2]
./solver
