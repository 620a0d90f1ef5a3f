#!/bin/bash
#SBATCH --nodes=2-6
#SBATCH --use-min-nodes
srun ./x
