#!/bin/bash
#SBATCH --job-name=chain
#SBATCH --dependency=singleton
#SBATCH --time=1:00:00
./step
