#!/bin/bash
#SBATCH --begin=now+1hour
#SBATCH --time=5
./later
