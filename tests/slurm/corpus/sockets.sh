#!/bin/bash
#SBATCH --sockets-per-node=2
#SBATCH --cores-per-socket=16
#SBATCH --mem-bind=local
srun ./numa
