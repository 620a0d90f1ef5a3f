#!/bin/bash
#SBATCH --nodes=1          # one node
#SBATCH --ntasks=4         # four tasks
#SBATCH --time=01:00:00    # an hour
srun ./x
