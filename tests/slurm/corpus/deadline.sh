#!/bin/bash
#SBATCH --deadline=now+2days
#SBATCH --time=60
#SBATCH --time-min=30
./x
