#!/bin/bash
#SBATCH --cpu-freq=performance
#SBATCH --power=level
#SBATCH --core-spec=2
./x
