#!/bin/bash
#PBS -N old
#PBS -l nodes=1
#SBATCH --job-name=new
#SBATCH --ignore-pbs
./x
